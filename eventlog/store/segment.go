package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/segment"
)

// makeRoom opens the segment that the staged group goes into, a new one if need
// be, and preallocates the group's place. No group is in flight. An error for
// which disk.NoRoom is true left nothing behind and may be tried again; every other
// one poisons the log.
func (c *chain) makeRoom(fs disk.FS, o *Options) error {
	seg := c.last()
	if seg != nil && !seg.sealed && len(seg.index) > 0 && seg.size+c.size() > o.SegmentSize {
		if err := c.seal(fs); err != nil {
			return err
		}
	}
	if seg == nil || seg.sealed {
		if err := c.create(fs, o); err != nil {
			return err
		}
		seg = c.last()
	}
	if c.file == nil {
		if err := c.openLast(fs); err != nil {
			return err
		}
	}
	if end := seg.size + c.size(); end > c.alloc {
		step := max(min(o.Prealloc, max(minPrealloc, seg.size)), end-c.alloc)
		if err := c.preallocate(seg, step); err != nil && disk.IsFull(err) {
			step = end - c.alloc // what the group needs may still be there
			err = c.preallocate(seg, step)
			if err != nil {
				return disk.BeforeWriting(err)
			}
		} else if err != nil {
			return err
		}
		size, err := c.file.Size()
		if err != nil {
			return err
		}
		c.alloc = max(size, end)
	}
	return nil
}

func (c *chain) preallocate(seg *file, step int64) error {
	if err := c.file.Preallocate(c.alloc, step); err != nil {
		return fmt.Errorf("preallocate %s: %w", seg.path, err)
	}
	return nil
}

// launch makes the staged group, for which there is room, the one in flight.
// None is.
func (c *chain) launch() {
	done := c.flight
	c.flight, c.commitGroup = c.commitGroup, commitGroup{buf: done.buf[:0], newIdx: done.newIdx[:0]}
}

// write puts the group in flight into the place that makeRoom made, without
// syncing it. Every error poisons the log.
func (c *chain) write() error {
	seg := c.last()
	return disk.WriteAt(c.file, c.flight.buf, seg.size, seg.path)
}

// finish writes the head behind the group in flight, which has none yet.
func (c *chain) finish(h event.Head) error {
	n := len(c.flight.buf)
	if err := c.flight.end(h); err != nil {
		return err
	}
	seg := c.last()
	return disk.WriteAt(c.file, c.flight.buf[n:], seg.size+int64(n), seg.path)
}

func (c *chain) openLast(fs disk.FS) error {
	f, err := fs.OpenFile(c.last().path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	size, err := f.Size()
	if err != nil {
		_ = f.Close() // nothing was written
		return err
	}
	c.file, c.alloc = f, size
	return nil
}

// seal ends the last segment. The group in buf is not in it, so its seal
// belongs to the group after it.
func (c *chain) seal(fs disk.FS) error {
	seg := c.last()
	if c.file == nil {
		if err := c.openLast(fs); err != nil {
			return err
		}
	}
	b, err := record.AppendFrame(nil, record.Frame{
		Type: record.TypeSeal, Base: c.head.Seq + 1,
		Payload: record.AppendSeal(nil, record.Seal{Last: c.head.Seq, Hash: c.head.Hash}),
	})
	if err != nil {
		return err
	}
	if end := seg.size + int64(len(b)); end > c.alloc {
		if err := c.preallocate(seg, end-c.alloc); err != nil {
			return disk.BeforeWriting(err)
		}
		c.alloc = end
	}
	if err := disk.WriteAt(c.file, b, seg.size, seg.path); err != nil {
		return err
	}
	if err := c.file.Truncate(seg.size + int64(len(b))); err != nil {
		return fmt.Errorf("truncate %s: %w", seg.path, err)
	}
	if err := c.file.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", seg.path, err)
	}
	if err := c.file.Close(); err != nil {
		return fmt.Errorf("close %s: %w", seg.path, err)
	}
	c.file = nil
	c.mu.Lock()
	seg.sealed = true
	seg.size += int64(len(b))
	c.mu.Unlock()
	return nil
}

// create makes the segment that starts after the durable end of the chain,
// with its header durable in it and its name in the directory.
func (c *chain) create(fs disk.FS, o *Options) error {
	seg := &file{first: c.head.Seq + 1, prev: c.head.Hash}
	seg.path = filepath.Join(c.dir, segment.Name(seg.first))
	p, err := record.AppendHeader(nil, record.Header{Cluster: o.Cluster, Source: c.src, First: seg.first, Prev: seg.prev})
	if err != nil {
		return err
	}
	b, err := record.AppendFrame([]byte(record.Magic), record.Frame{Type: record.TypeHeader, Base: seg.first, Payload: p})
	if err != nil {
		return err
	}
	if len(c.segs) == 0 {
		if err := fs.MkdirAll(c.dir, 0o700); err != nil {
			return disk.BeforeWriting(fmt.Errorf("create source directory: %w", err))
		}
		if err := fs.SyncDir(filepath.Dir(c.dir)); err != nil {
			return err
		}
	}
	f, err := fs.OpenFile(seg.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return disk.BeforeWriting(fmt.Errorf("create segment: %w", err))
	}
	c.file, c.alloc = f, 0
	if err := c.preallocate(seg, int64(len(b))); err != nil && disk.IsFull(err) {
		return c.giveUp(fs, seg, err)
	} else if err != nil {
		return err
	}
	if err := disk.WriteAt(f, b, 0, seg.path); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", seg.path, err)
	}
	if err := fs.SyncDir(c.dir); err != nil {
		return err
	}
	seg.size, c.alloc = int64(len(b)), int64(len(b))
	c.mu.Lock()
	c.segs = append(c.segs, seg)
	c.mu.Unlock()
	return nil
}

// giveUp removes a segment of which nothing could be written.
func (c *chain) giveUp(fs disk.FS, seg *file, cause error) error {
	f := c.file
	c.file = nil
	if err := errors.Join(f.Close(), fs.Remove(seg.path)); err != nil {
		return errors.Join(cause, err)
	}
	return disk.BeforeWriting(cause)
}
