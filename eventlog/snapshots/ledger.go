package snapshots

import (
	"slices"
	"sync"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/snapshot"
)

// ledger is the manifest: what was dropped of the log, durably.
type ledger struct {
	files Files

	mu       sync.RWMutex
	manifest *snapshot.Manifest
}

// load reads the manifest.
func (l *ledger) load() error {
	m, err := l.files.Manifest()
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.manifest = m
	l.mu.Unlock()
	return nil
}

// copied makes the manifest and its copy the same, where one is gone or damaged or
// there was no copy yet.
func (l *ledger) copied() error {
	if len(l.now().Bases) == 0 {
		return nil
	}
	for _, name := range Manifests() {
		if m, err := l.files.ReadManifest(name); m == nil || err != nil {
			return l.files.SaveManifest(l.now())
		}
	}
	return nil
}

func (l *ledger) now() *snapshot.Manifest {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.manifest
}

// record makes the manifest say that chains begin after bases, and keeps what
// identifies the segments dropped for it. It is durable when it returns. One
// goroutine at a time may call it.
func (l *ledger) record(bases map[event.SourceID]event.Mark, dropped []snapshot.Dropped) error {
	m := l.now().With(bases, dropped)
	if err := l.files.SaveManifest(m); err != nil {
		return err
	}
	l.mu.Lock()
	l.manifest = m
	l.mu.Unlock()
	return nil
}

// within says whether t holds everything that was dropped.
func (l *ledger) within(t *event.SnapshotTaken) bool {
	return !slices.ContainsFunc(l.now().Bases, func(b event.SourceMark) bool {
		h := snapshot.HeadOf(t, b.Source)
		return h.Seq < b.Seq || h.Seq == b.Seq && h.Hash != b.Hash
	})
}

// archived counts the segments that were archived before they were dropped.
func (l *ledger) archived() (n int) {
	for _, d := range l.now().Segments {
		if d.Archived != "" {
			n++
		}
	}
	return n
}
