package eventlog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/snapshot"
)

// Dir is a log that is only read: what its directory held when it was opened,
// without what an interrupted or running write left at the ends. Another
// process may have it open and go on writing.
type Dir struct {
	path   string
	fs     FS
	chains map[cluster.SourceID]*chain
	forks  []Fork // proven
	past   past
}

// OpenDir looks at the log in o.Dir. It reads the last segment of each chain
// only; Verify reads all.
func OpenDir(o VerifyOptions) (*Dir, error) {
	if o.Dir == "" || o.Cluster == "" || o.KeyOf == nil {
		return nil, errors.New("read event log: directory, cluster id and keys are required")
	}
	if o.FS == nil {
		o.FS = OSFS()
	}
	d := &Dir{path: o.Dir, fs: o.FS, chains: map[cluster.SourceID]*chain{}}
	sources, err := sourceDirs(o.FS, o.Dir)
	if err != nil {
		return nil, err
	}
	// A proof that cannot be read is Verify's affair.
	d.forks, _ = LoadForks(o.Dir, o.Cluster, o.KeyOf)
	if d.past, err = loadPast(snapshotStore{fs: o.FS, dir: o.Dir, cluster: o.Cluster}, true); err != nil {
		return nil, fmt.Errorf("read event log: %w", err)
	}
	for _, b := range d.past.manifest.Bases {
		if !slices.Contains(sources, b.Source) {
			sources = append(sources, b.Source)
		}
	}
	for _, src := range sources {
		c, err := d.chain(o, src)
		if err != nil {
			return nil, fmt.Errorf("read event log: %w", err)
		}
		if c.head.Seq > 0 {
			d.chains[src] = c
		}
	}
	return d, nil
}

// chain finds the segments of src and, in the last of them that has a group,
// the end.
func (d *Dir) chain(o VerifyOptions, src cluster.SourceID) (*chain, error) {
	c := &chain{src: src, dir: filepath.Join(d.path, sourceDir(src)), floor: d.past.manifest.Base(src)}
	firsts, err := segmentFiles(d.fs, c.dir)
	if err != nil && (c.floor.Seq == 0 || !errors.Is(err, os.ErrNotExist)) {
		return nil, err
	}
	firsts = slices.DeleteFunc(firsts, func(first uint64) bool { return first <= c.floor.Seq })
	for i, first := range slices.Backward(firsts) {
		seg := &segment{path: filepath.Join(c.dir, segmentName(first)), first: first}
		if err := d.segment(o, c, seg, i == len(firsts)-1); err != nil {
			return nil, err
		}
		c.segs = append(c.segs, seg)
	}
	slices.Reverse(c.segs)
	if c.head.Seq == 0 {
		c.head = cluster.Head{Source: src, Seq: c.floor.Seq, Hash: c.floor.Hash}
		for _, t := range d.past.kept {
			if h := snapshot.HeadOf(t, src); h.Seq == c.floor.Seq {
				c.head = h // with its signature
				break
			}
		}
	}
	return c, nil
}

// segment finds the size of one segment, and the chain's head in it if none
// later had it.
func (d *Dir) segment(o VerifyOptions, c *chain, seg *segment, last bool) error {
	f, err := d.fs.OpenFile(seg.path, os.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	defer f.Close()
	seg.index = []indexEntry{{seq: seg.first, off: int64(len(record.Magic))}}
	if seg.size, err = f.Size(); err != nil || c.head.Seq > 0 {
		return err // a sealed segment is as long as its file
	}
	head := make([]byte, min(seg.size, int64(len(record.Magic)+record.FrameHeaderLen+record.MaxCluster+256)))
	if n, err := f.ReadAt(head, 0); err != nil && n < len(head) {
		return fmt.Errorf("read %s: %w", seg.path, err)
	}
	s := &segmentScan{
		path: seg.path, cluster: o.Cluster, src: c.src, own: c.src.Node == o.Self, first: seg.first, last: last,
		commit: func(g group) error {
			c.head = g.head
			return nil
		},
	}
	if h, ok := peekHeader(head); ok {
		s.tail = cluster.Mark{Seq: h.First - 1, Hash: h.Prev}
	}
	if err := s.run(f, seg.size); err != nil {
		return err
	}
	seg.size, seg.index = s.end, s.index
	for n := len(seg.index); n > 0 && seg.index[n-1].off >= s.end; n-- {
		seg.index = seg.index[:n-1]
	}
	return nil
}

// peekHeader reads the header at the start of a segment, if there is one.
func peekHeader(b []byte) (record.Header, bool) {
	if len(b) < len(record.Magic) || string(b[:len(record.Magic)]) != record.Magic {
		return record.Header{}, false
	}
	fr, _, err := record.ParseFrame(b[len(record.Magic):])
	if err != nil || fr.Type != record.TypeHeader {
		return record.Header{}, false
	}
	h, err := record.DecodeHeader(fr.Payload)
	return h, err == nil
}

func (d *Dir) place(src cluster.SourceID, seq uint64) (place, bool) { return d.chains[src].place(seq) }
func (d *Dir) marks(src cluster.SourceID) []uint64                  { return d.chains[src].marks() }
func (d *Dir) files() FS                                            { return d.fs }

// Heads returns the end of every chain, sorted by source, each signed by its
// source; Verify checks the signatures.
func (d *Dir) Heads() []cluster.Head {
	heads := make([]cluster.Head, 0, len(d.chains))
	for _, c := range d.chains {
		heads = append(heads, c.head)
	}
	slices.SortFunc(heads, func(a, b cluster.Head) int { return a.Source.Compare(b.Source) })
	return heads
}

// Oldest returns the position after which all events are kept.
func (d *Dir) Oldest() cluster.Cursor { return oldest(d, d.Heads()) }

// After reads as Log.After does, up to the heads.
func (d *Dir) After(ctx context.Context, at cluster.Cursor, f Filter) iter.Seq2[cluster.Event, error] {
	return readAfter(ctx, d, at, f)
}
