package snapshots

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/eventlog/snapshot"
	"github.com/skein-project/skein/eventlog/state"
)

// Start is where the log goes on from.
type Start struct {
	// Sources are the chains to recover: those of the directory, and those of
	// which nothing is left but a position.
	Sources []event.SourceID
	// Base is the newest sound snapshot, and State what it holds; nil for none.
	Base  *event.SnapshotTaken
	State *state.State
}

// Open reads the manifest and the newest sound snapshot. dirs are the chains that
// have a directory. With lacking, a log goes on of which no snapshot holds what was
// dropped, see Lacks.
func (k *Keeper) Open(dirs []event.SourceID, lacking bool) (st Start, err error) {
	if err := k.ledger.load(); err != nil {
		return st, err
	}
	names, unfinished, err := k.files.Names()
	if err != nil {
		return st, err
	}
	k.unfinished = unfinished
	var damaged, unread error
	for i, name := range names {
		t, held, err := k.files.Load(name)
		if err != nil {
			k.m.damaged.Inc()
			k.log.Error().Err(err).Str("snapshot", name).Msg("snapshot damaged, an older one is used")
			damaged = errors.Join(damaged, err)
			if !Damaged(err) {
				unread = errors.Join(unread, err)
			}
			continue
		}
		st.Base, st.State = t, held
		k.catalog.kept = append(k.olderThan(t, names[i+1:]), t)
		break
	}
	if err := k.reaches(damaged); err != nil {
		if unread != nil {
			return st, fmt.Errorf("open snapshots: %w", unread) // perhaps sound
		}
		if !lacking {
			return st, err
		}
		st.Base, st.State, k.catalog.kept = nil, nil, nil
	}
	st.Sources = k.sourcesOf(dirs)
	return st, nil
}

// Damaged reports whether a snapshot was read, and is wrong.
func Damaged(err error) bool {
	return errors.Is(err, snapshot.ErrInvalid) || errors.Is(err, state.ErrEncoding) || errors.Is(err, io.ErrUnexpectedEOF)
}

// olderThan returns the snapshots that are kept beside the newest, without their
// states.
func (k *Keeper) olderThan(newest *event.SnapshotTaken, names []string) (kept []*event.SnapshotTaken) {
	oldest := newest
	for _, name := range names {
		if len(kept)+1 >= keepSnapshots {
			break
		}
		f, t, _, err := k.files.Open(name)
		if err != nil {
			k.log.Warn().Err(err).Str("snapshot", name).Msg("older snapshot damaged")
			continue
		}
		_ = f.Close() // opened for reading
		if snapshot.Covers(oldest, t) {
			kept = append([]*event.SnapshotTaken{t}, kept...)
			oldest = t
		}
	}
	return kept
}

// reaches reports a log whose oldest events are dropped and in no snapshot.
func (k *Keeper) reaches(damaged error) error {
	for _, b := range k.ledger.now().Bases {
		if h := k.catalog.head(b.Source); h.Seq < b.Seq {
			reason := fmt.Sprintf("events up to seq %d were dropped, and no sound snapshot holds them", b.Seq)
			if damaged != nil {
				reason += ": " + damaged.Error()
			}
			return &segment.CorruptError{Segment: k.files.Path(""), Source: b.Source, Seq: b.Seq, Reason: reason, Own: b.Source.Node == k.o.Self}
		}
	}
	return nil
}

// sourcesOf lists the chains of the directory, of the newest snapshot and of
// the manifest.
func (k *Keeper) sourcesOf(dirs []event.SourceID) []event.SourceID {
	all := map[event.SourceID]bool{}
	for _, src := range dirs {
		all[src] = true
	}
	if t := k.catalog.newest(); t != nil {
		for _, h := range t.Heads {
			all[h.Source] = true
		}
	}
	for _, b := range k.ledger.now().Bases {
		all[b.Source] = true
	}
	return slices.SortedFunc(maps.Keys(all), event.SourceID.Compare)
}

// Floor implements store.Base.
func (k *Keeper) Floor(src event.SourceID) event.Mark { return k.ledger.now().Base(src) }

// Head implements store.Base.
func (k *Keeper) Head(src event.SourceID) event.Head { return k.catalog.head(src) }

// Settle checks, when the chains are recovered, that what the snapshots are for
// is there, and then removes what an interrupted process left. forks are those
// that the fold knows.
func (k *Keeper) Settle(forks map[event.SourceID]uint64) error {
	lacks := k.Lacks()
	for _, h := range k.o.Store.Ends() {
		short := lacks || h.Seq < k.catalog.head(h.Source).Seq // what follows is fetched
		if h.Seq > 0 && len(h.Sig) == 0 && forks[h.Source] == 0 && !short {
			return &segment.CorruptError{
				Segment: k.files.Path(""), Source: h.Source, Seq: h.Seq, Own: h.Source.Node == k.o.Self,
				Reason: "the chain was dropped up to here and no snapshot has its head",
			}
		}
		for _, seg := range k.o.Store.Segments(h.Source) {
			if seg.First > k.catalog.head(h.Source).Seq {
				k.catalog.grew(seg.Size)
			}
		}
	}
	k.catalog.mu.Lock()
	k.catalog.noted = slices.DeleteFunc(k.catalog.noted, k.catalog.outdatedLocked)
	k.catalog.mu.Unlock()
	k.catalog.show()
	return errors.Join(k.files.remove(k.unfinished...), k.ledger.copied())
}
