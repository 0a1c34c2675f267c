package eventlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/snapshot"
	"github.com/skein-project/skein/eventlog/state"
)

const (
	// snapshotDir holds the snapshots and the manifest.
	snapshotDir  = "snapshots"
	manifestName = "manifest"
	// A file with one of these ends was never finished. Of those that are being
	// fetched the beginning is good.
	tmpSuffix  = ".tmp"
	partSuffix = ".part"
	// keepSnapshots is how many snapshots stay on disk: should the newest be
	// damaged, the log opens from the one before, so nothing beyond that one is
	// ever dropped.
	keepSnapshots = 2
)

// snapshotStore is the directory of snapshots of one log. It has no lock.
type snapshotStore struct {
	fs      FS
	dir     string // of the log
	cluster string
}

func (s snapshotStore) path(name string) string { return filepath.Join(s.dir, snapshotDir, name) }

// writeFile replaces a file of the store: the old or the new bytes survive a
// crash. The parts are written one after the other.
func (s snapshotStore) writeFile(name string, parts ...[]byte) error {
	if err := s.fs.MkdirAll(s.path(""), 0o700); err != nil {
		return fmt.Errorf("create snapshot directory: %w", err)
	}
	if err := s.fs.SyncDir(s.dir); err != nil {
		return err
	}
	return writeDurably(s.fs, s.path(name), parts...)
}

// writeDurably replaces the file path, whose directory exists.
func writeDurably(fsys FS, path string, parts ...[]byte) error {
	tmp := path + tmpSuffix
	f, err := fsys.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	err = f.Truncate(0)
	var off int64
	for _, b := range parts {
		if err == nil {
			err = writeAt(f, b, off, tmp)
		}
		off += int64(len(b))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = fsys.Remove(tmp) // best effort: Open removes what is left
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := fsys.Rename(tmp, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return fsys.SyncDir(filepath.Dir(path))
}

// readFile reads a file of at most limit bytes.
func readFile(fsys FS, path string, limit int64) ([]byte, error) {
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are allowed", path, size, limit)
	}
	return readAll(f, 0, size)
}

// manifest reads what was dropped. There is none until something was.
func (s snapshotStore) manifest() (*snapshot.Manifest, error) {
	path := s.path(manifestName)
	b, err := readFile(s.fs, path, snapshot.MaxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return &snapshot.Manifest{Cluster: s.cluster}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	m, err := snapshot.DecodeManifest(s.cluster, b)
	if err != nil {
		return nil, &CorruptError{Segment: path, Reason: err.Error()}
	}
	return m, nil
}

func (s snapshotStore) saveManifest(m *snapshot.Manifest) error {
	b, err := m.Encode()
	if err != nil {
		return err
	}
	return s.writeFile(manifestName, b)
}

// names lists the snapshot files, those with the largest cut first, and the
// unfinished ones.
func (s snapshotStore) names() (snaps, unfinished []string, err error) {
	entries, err := s.fs.ReadDir(s.path(""))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list snapshots: %w", err)
	}
	for _, e := range entries {
		if _, _, ok := snapshot.ParseFileName(e.Name()); ok {
			snaps = append(snaps, e.Name())
		} else if strings.HasSuffix(e.Name(), tmpSuffix) {
			unfinished = append(unfinished, e.Name())
		}
	}
	slices.Sort(snaps)
	slices.Reverse(snaps)
	return snaps, unfinished, nil
}

// save keeps a snapshot and its state.
func (s snapshotStore) save(t *cluster.SnapshotTaken, encoded []byte) error {
	meta, err := snapshot.AppendMeta(nil, t)
	if err != nil {
		return err
	}
	return s.writeFile(snapshot.FileName(t), meta, encoded)
}

// openFile opens a snapshot's file and reads the part before the state, which
// begins at at.
func (s snapshotStore) openFile(name string) (f File, t *cluster.SnapshotTaken, at int64, err error) {
	f, err = s.fs.OpenFile(s.path(name), os.O_RDONLY, 0)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("open snapshot: %w", err)
	}
	if t, at, err = s.readMeta(f, name); err != nil {
		_ = f.Close() // opened for reading
		return nil, nil, 0, fmt.Errorf("read %s: %w", name, err)
	}
	return f, t, at, nil
}

func (s snapshotStore) readMeta(f File, name string) (t *cluster.SnapshotTaken, at int64, err error) {
	size, err := f.Size()
	if err != nil {
		return nil, 0, err
	}
	head, err := readAll(f, 0, min(size, int64(snapshot.PreambleLen())))
	if err != nil {
		return nil, 0, err
	}
	n, err := snapshot.MetaLen(head)
	if err != nil {
		return nil, 0, err
	}
	if int64(n) > size {
		return nil, 0, io.ErrUnexpectedEOF
	}
	meta, err := readAll(f, 0, int64(n))
	if err != nil {
		return nil, 0, err
	}
	if t, err = snapshot.DecodeMeta(s.cluster, meta); err != nil {
		return nil, 0, err
	}
	if size != int64(n)+t.Size || name != snapshot.FileName(t) {
		return nil, 0, fmt.Errorf("%w: %d bytes hold snapshot %s", snapshot.ErrInvalid, size, t.ID)
	}
	return t, int64(n), nil
}

// load reads a whole snapshot and checks it.
func (s snapshotStore) load(name string) (*cluster.SnapshotTaken, *state.State, error) {
	f, t, at, err := s.openFile(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	b, err := readAll(f, at, at+t.Size)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", name, err)
	}
	st, err := decodeState(t, b)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", name, err)
	}
	return t, st, nil
}

// decodeState checks an encoded state against its snapshot and decodes it.
func decodeState(t *cluster.SnapshotTaken, b []byte) (*state.State, error) {
	if err := snapshot.CheckState(t, b); err != nil {
		return nil, err
	}
	st, err := state.Decode(b)
	if err != nil {
		return nil, err
	}
	if h := st.Hash(); h != t.State {
		return nil, fmt.Errorf("%w: state hash %s, want %s", snapshot.ErrInvalid, h, t.State)
	}
	for _, h := range t.Heads {
		if seq := st.Seq(h.Source); seq != h.Seq {
			return nil, fmt.Errorf("%w: state of %s at seq %d, cut at %d", snapshot.ErrInvalid, h.Source, seq, h.Seq)
		}
	}
	return st, nil
}

// part reads up to limit bytes of the encoded state from off on.
func (s snapshotStore) part(t *cluster.SnapshotTaken, off, limit int64) ([]byte, error) {
	f, _, at, err := s.openFile(snapshot.FileName(t))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, at+off, at+min(t.Size, off+limit))
}

// remove deletes files of the store.
func (s snapshotStore) remove(names ...string) error {
	if len(names) == 0 {
		return nil
	}
	for _, n := range names {
		if err := s.fs.Remove(s.path(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", s.path(n), err)
		}
	}
	return s.fs.SyncDir(s.path(""))
}
