package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/record"
)

// watermark remembers how far each chain was durable. A group is proven by the
// one after it: if the last group of a chain rots it looks like an interrupted
// write. So when nothing has been written for a while, and at the end, the heads
// are written to one of two files in turn, so that one of them is always whole.
// It belongs to the writer.
type watermark struct {
	count uint64 // of the newest file
	heads map[event.SourceID]uint64
	saved [16]byte // digest of what was saved last
}

const (
	markMagic = "skeinwm\x01"
	maxMark   = 1 << 20
)

// MarkPath is the file of the watermark with that count.
func MarkPath(dir string, count uint64) string {
	return filepath.Join(dir, fmt.Sprintf("watermark.%d", count%2))
}

// seq returns up to where the chain of src was durable, 0 if it is not known.
func (w *watermark) seq(src event.SourceID) uint64 { return w.heads[src] }

// with returns sources and those that only the watermark knows.
func (w *watermark) with(sources []event.SourceID) []event.SourceID {
	all := slices.Clone(sources)
	for src := range w.heads {
		if !slices.Contains(sources, src) {
			all = append(all, src)
		}
	}
	slices.SortFunc(all, event.SourceID.Compare)
	return all
}

// load reads the newer of the two files that is whole. One may have been cut
// short by a crash; an error says that a file could not be read.
func (w *watermark) load(fsys disk.FS, dir string) error {
	for i := range uint64(2) {
		count, heads, err := readMark(fsys, MarkPath(dir, i))
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, errMark):
		case err != nil:
			return fmt.Errorf("read watermark: %w", err)
		case w.heads == nil || count > w.count:
			w.count, w.heads = count, map[event.SourceID]uint64{}
			for _, h := range heads {
				w.heads[h.Source] = h.Seq
			}
		}
	}
	return nil
}

// errMark says that a file holds no watermark.
var errMark = errors.New("not a watermark")

// LoadMarks returns the heads of the newer watermark.
func LoadMarks(dir string) (heads []event.Head, err error) {
	newest := uint64(0)
	for i := range uint64(2) {
		count, got, err := readMark(disk.OSFS(), MarkPath(dir, i))
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, errMark):
		case err != nil:
			return nil, fmt.Errorf("read watermark: %w", err)
		case count > newest:
			newest, heads = count, got
		}
	}
	return heads, nil
}

// ReplaceMarks makes both watermarks say heads.
func ReplaceMarks(dir string, heads []event.Head) error {
	w := watermark{}
	if err := w.load(disk.OSFS(), dir); err != nil {
		return err
	}
	for range 2 {
		if err := w.write(disk.OSFS(), dir, heads); err != nil {
			return err
		}
	}
	return nil
}

func readMark(fsys disk.FS, name string) (count uint64, heads []event.Head, err error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return 0, nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return 0, nil, err
	}
	if size > maxMark {
		return 0, nil, fmt.Errorf("%s: %w: %d bytes", name, errMark, size)
	}
	b, err := disk.ReadRange(f, 0, size)
	if err != nil {
		return 0, nil, disk.ReadError(name, err)
	}
	return decodeMark(b)
}

// decodeMark reads the magic, a counter, the heads and a CRC-32C of all of it.
func decodeMark(b []byte) (count uint64, heads []event.Head, err error) {
	n := len(b) - 4
	if n < len(markMagic)+8 || string(b[:len(markMagic)]) != markMagic {
		return 0, nil, errMark
	}
	if crc32.Checksum(b[:n], crc32.MakeTable(crc32.Castagnoli)) != binary.BigEndian.Uint32(b[n:]) {
		return 0, nil, fmt.Errorf("%w: wrong checksum", errMark)
	}
	if heads, err = record.DecodeHeads(b[len(markMagic)+8:n], MaxSources); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", errMark, err)
	}
	return binary.BigEndian.Uint64(b[len(markMagic):]), heads, nil
}

func encodeMark(count uint64, heads []event.Head) ([]byte, error) {
	b := binary.BigEndian.AppendUint64([]byte(markMagic), count)
	b, err := record.AppendHeads(b, heads)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))), err
}

// begin writes the first watermark of a log: one that has none was never opened, or
// is lost.
func (w *watermark) begin(s *Store) error {
	if w.heads != nil {
		return nil
	}
	return w.write(s.o.FS, s.o.Dir, nil)
}

// save writes the heads down if they are others than before. That it cannot be
// done loses nothing but the proof.
func (w *watermark) save(s *Store) bool {
	digest := s.Digest()
	heads := s.Heads()
	if digest == w.saved || len(heads) == 0 {
		return true
	}
	if err := w.write(s.o.FS, s.o.Dir, heads); err != nil {
		s.log.Warn().Err(err).Msg("watermark of the event log not written")
		return false
	}
	w.saved = digest
	return true
}

func (w *watermark) write(fsys disk.FS, dir string, heads []event.Head) (err error) {
	b, err := encodeMark(w.count+1, heads)
	if err != nil {
		return err
	}
	name := MarkPath(dir, w.count+1)
	flag, made := os.O_RDWR, false
	f, err := fsys.OpenFile(name, flag, 0)
	if errors.Is(err, fs.ErrNotExist) {
		made = true
		f, err = fsys.OpenFile(name, flag|os.O_CREATE, 0o600)
	}
	if err != nil {
		return fmt.Errorf("open watermark: %w", err)
	}
	if err = disk.WriteAt(f, b, 0, name); err == nil {
		err = f.Truncate(int64(len(b)))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if made {
		if err := fsys.SyncDir(dir); err != nil {
			return err
		}
	}
	w.count++
	return nil
}
