package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/eventlog/snapshot"
	"github.com/skein-project/skein/eventlog/snapshots"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/internal/durable"
)

// cleanUp moves out of the log what does not belong into it, and what is damaged
// beside the chains: snapshots, the manifest, proofs of forks, the list of repairs.
func (o RepairOptions) cleanUp() ([]SetAside, error) {
	c := cleaner{o: o}
	for _, f := range []func() error{c.strangers, c.snapshots, c.manifests, c.proofs, c.notes} {
		if err := f(); err != nil {
			return c.out, err
		}
	}
	return c.out, nil
}

// cleaner moves files out of a log.
type cleaner struct {
	o   RepairOptions
	out []SetAside
}

func (o RepairOptions) files() snapshots.Files {
	return snapshots.Files{FS: disk.OSFS(), Dir: o.Dir, Cluster: o.Cluster}
}

// stamp names what one repair sets aside.
func (o RepairOptions) stamp() string { return o.Now.UTC().Format("20060102T150405") }

// move sets a file or directory aside, durably.
func (c *cleaner) move(path, reason string) error {
	name, err := filepath.Rel(c.o.Dir, path)
	if err != nil {
		return err
	}
	to := filepath.Join(c.o.Aside, "files."+c.o.stamp(), name)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if err := os.Rename(path, to); err != nil {
		return fmt.Errorf("set %s aside: %w", path, err)
	}
	if err := errors.Join(durable.SyncDir(filepath.Dir(to)), durable.SyncDir(filepath.Dir(path))); err != nil {
		return err
	}
	c.out = append(c.out, SetAside{Path: path, Reason: reason, Aside: to})
	return nil
}

// strangers moves away directories that are no chains, and files in chains that
// are no segments.
func (c *cleaner) strangers() error {
	entries, err := os.ReadDir(c.o.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(c.o.Dir, e.Name())
		if !e.IsDir() || e.Name() == segment.ProofDir || e.Name() == segment.SnapshotDir {
			continue
		}
		if _, ok := segment.ParseSourceDir(e.Name()); !ok {
			if err := c.move(path, "no chain of the log"); err != nil {
				return err
			}
			continue
		}
		segments, err := os.ReadDir(path)
		if err != nil {
			return err
		}
		for _, s := range segments {
			if _, ok := segment.ParseName(s.Name()); ok && !s.IsDir() {
				continue
			}
			if err := c.move(filepath.Join(path, s.Name()), "no segment of the chain"); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *cleaner) snapshots() error {
	files := c.o.files()
	names, _, err := files.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		_, _, err := files.Load(name)
		if err == nil {
			continue
		}
		if !snapshots.Damaged(err) {
			return err
		}
		if err := c.move(files.Path(name), segment.Damaged(files.Path(name), err).Reason); err != nil {
			return err
		}
	}
	return nil
}

// manifests moves damaged ones away. The other one replaces it.
func (c *cleaner) manifests() error {
	files := c.o.files()
	var sound *snapshot.Manifest
	for _, name := range slices.Backward(snapshots.Manifests()) {
		m, err := files.ReadManifest(name)
		if bad, ok := errors.AsType[*segment.CorruptError](err); ok {
			err = c.move(bad.Segment, bad.Reason)
		}
		if err != nil {
			return err
		}
		if m != nil {
			sound = m // the copy, unless the manifest is
		}
	}
	if sound == nil || len(c.out) == 0 {
		return nil
	}
	return files.SaveManifest(sound)
}

func (c *cleaner) proofs() error {
	for {
		_, err := store.LoadForks(c.o.Dir, c.o.Cluster, c.o.KeyOf)
		bad, ok := errors.AsType[*store.ProofError](err)
		if !ok {
			return err
		}
		if err := c.move(bad.Path, bad.Error()); err != nil {
			return err
		}
	}
}

// notes moves the list of earlier repairs away if it cannot be read.
func (c *cleaner) notes() error {
	_, err := LoadRepairs(c.o.Dir)
	if bad, ok := errors.AsType[*segment.CorruptError](err); ok {
		return c.move(bad.Segment, bad.Reason)
	}
	return err
}

// forgotten returns the own chain if the list of repairs was set aside: nobody
// knows any more whether the chain was one of them.
func (o RepairOptions) forgotten(aside []SetAside) (r Repairing, ok bool, err error) {
	i := slices.IndexFunc(aside, func(a SetAside) bool { return filepath.Base(a.Path) == durable.Repairs.Name })
	if i < 0 {
		return r, false, nil
	}
	sources, err := segment.SourceDirs(disk.OSFS(), o.Dir)
	if err != nil {
		return r, false, err
	}
	for _, src := range sources {
		if src.Node == o.Self && src.Inc > r.Source.Inc {
			r = Repairing{Source: src, Own: true, Segment: aside[i].Path, Reason: "what was being repaired is not known", Peer: o.Peer}
		}
	}
	heads, err := store.LoadMarks(o.Dir)
	for _, h := range heads {
		if h.Source == r.Source {
			r.Kept = h.Seq
		}
	}
	return r, r.Source.Inc > 0, err
}

// lacking notes that the state is to be fetched, if events were dropped and no
// snapshot holds them, and returns pending with that.
func (o RepairOptions) lacking(pending []Repairing) ([]Repairing, error) {
	p, err := loadPast(o.files(), true)
	if err != nil {
		return pending, err
	}
	_, err = p.base()
	bad, ok := errors.AsType[*segment.CorruptError](err)
	if !ok {
		return pending, err
	}
	pending = merge(pending, Repairing{
		Source: bad.Source, Segment: bad.Segment, Reason: bad.Reason, Known: bad.Seq, Peer: o.Peer, State: true,
	})
	return pending, SaveRepairs(o.Dir, pending)
}
