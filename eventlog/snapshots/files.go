package snapshots

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/eventlog/snapshot"
	"github.com/skein-project/skein/eventlog/state"
)

const (
	manifestName = "manifest"
	// manifestCopy stands in for a manifest that is damaged or gone. It is
	// written first.
	manifestCopy = "manifest.copy"
	// partSuffix ends the name of a file that is being fetched. Its beginning is
	// good.
	partSuffix = ".part"
	// keepSnapshots is how many snapshots stay on disk: should the newest be
	// damaged, the log opens from the one before, so nothing beyond that one is
	// ever dropped.
	keepSnapshots = 2
)

// Files is the directory of snapshots of one log. It has no lock.
type Files struct {
	FS      disk.FS
	Dir     string // of the log
	Cluster string
}

// Path is where a file of the directory lies.
func (s Files) Path(name string) string { return filepath.Join(s.Dir, segment.SnapshotDir, name) }

// writeFile durably replaces a file with parts, one after the other.
func (s Files) writeFile(name string, parts ...[]byte) error {
	if err := s.FS.MkdirAll(s.Path(""), 0o700); err != nil {
		return fmt.Errorf("create snapshot directory: %w", err)
	}
	if err := s.FS.SyncDir(s.Dir); err != nil {
		return err
	}
	return disk.WriteFile(s.FS, s.Path(name), parts...)
}

// Manifest reads what was dropped, from the copy if the manifest is damaged or
// gone. There is none until something was.
func (s Files) Manifest() (*snapshot.Manifest, error) {
	m, err := s.ReadManifest(manifestName)
	if m != nil {
		return m, nil
	}
	c, copyErr := s.ReadManifest(manifestCopy)
	switch err = errors.Join(err, copyErr); {
	case c != nil:
		return c, nil
	case err != nil:
		return nil, err
	}
	return &snapshot.Manifest{Cluster: s.Cluster}, nil
}

// Manifests are the names of the manifest and its copy.
func Manifests() []string { return []string{manifestName, manifestCopy} }

// ReadManifest reads one of Manifests, nil if there is none.
func (s Files) ReadManifest(name string) (*snapshot.Manifest, error) {
	path := s.Path(name)
	b, err := disk.ReadFile(s.FS, path, snapshot.MaxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, disk.ReadError(path, err)
	}
	m, err := snapshot.DecodeManifest(s.Cluster, b)
	if err != nil {
		return nil, segment.Damaged(path, err)
	}
	return m, nil
}

// SaveManifest replaces the manifest and its copy.
func (s Files) SaveManifest(m *snapshot.Manifest) error {
	b, err := m.Encode()
	if err != nil {
		return err
	}
	if err := s.writeFile(manifestCopy, b); err != nil {
		return err
	}
	return s.writeFile(manifestName, b)
}

// Names lists the snapshot files, those with the largest cut first, and the
// unfinished ones.
func (s Files) Names() (snaps, unfinished []string, err error) {
	entries, err := s.FS.ReadDir(s.Path(""))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list snapshots: %w", err)
	}
	for _, e := range entries {
		if _, _, ok := snapshot.ParseFileName(e.Name()); ok {
			snaps = append(snaps, e.Name())
		} else if strings.HasSuffix(e.Name(), disk.TmpSuffix) {
			unfinished = append(unfinished, e.Name())
		}
	}
	slices.Sort(snaps)
	slices.Reverse(snaps)
	return snaps, unfinished, nil
}

// save keeps a snapshot and its state.
func (s Files) save(t *event.SnapshotTaken, encoded []byte) error {
	meta, err := snapshot.AppendMeta(nil, t)
	if err != nil {
		return err
	}
	return s.writeFile(snapshot.FileName(t), meta, encoded)
}

// Open opens a snapshot's file and reads the part before the state, which
// begins at at.
func (s Files) Open(name string) (f disk.File, t *event.SnapshotTaken, at int64, err error) {
	f, err = s.FS.OpenFile(s.Path(name), os.O_RDONLY, 0)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("open snapshot: %w", err)
	}
	if t, at, err = s.readMeta(f, name); err != nil {
		_ = f.Close() // opened for reading
		return nil, nil, 0, disk.ReadError(s.Path(name), err)
	}
	return f, t, at, nil
}

func (s Files) readMeta(f disk.File, name string) (t *event.SnapshotTaken, at int64, err error) {
	size, err := f.Size()
	if err != nil {
		return nil, 0, err
	}
	head, err := disk.ReadRange(f, 0, min(size, int64(snapshot.PreambleLen())))
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
	meta, err := disk.ReadRange(f, 0, int64(n))
	if err != nil {
		return nil, 0, err
	}
	if t, err = snapshot.DecodeMeta(s.Cluster, meta); err != nil {
		return nil, 0, err
	}
	if size != int64(n)+t.Size || name != snapshot.FileName(t) {
		return nil, 0, fmt.Errorf("%w: %d bytes hold snapshot %s", snapshot.ErrInvalid, size, t.ID)
	}
	return t, int64(n), nil
}

// Load reads a whole snapshot and checks it.
func (s Files) Load(name string) (*event.SnapshotTaken, *state.State, error) {
	f, t, at, err := s.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	b, err := disk.ReadRange(f, at, at+t.Size)
	if err != nil {
		return nil, nil, disk.ReadError(s.Path(name), err)
	}
	st, err := decodeState(t, b)
	if err != nil {
		return nil, nil, disk.ReadError(s.Path(name), err)
	}
	return t, st, nil
}

// decodeState checks an encoded state against its snapshot and decodes it.
func decodeState(t *event.SnapshotTaken, b []byte) (*state.State, error) {
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
func (s Files) part(t *event.SnapshotTaken, off, limit int64) ([]byte, error) {
	f, _, at, err := s.Open(snapshot.FileName(t))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return disk.ReadRange(f, at+off, at+min(t.Size, off+limit))
}

// remove deletes files.
func (s Files) remove(names ...string) error {
	if len(names) == 0 {
		return nil
	}
	for _, n := range names {
		if err := s.FS.Remove(s.Path(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", s.Path(n), err)
		}
	}
	return s.FS.SyncDir(s.Path(""))
}
