package snapshots

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/snapshot"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/store"
)

// failedPause is how long nothing is tried after a snapshot failed.
const failedPause = time.Minute

// holding returns the term that this host holds, by the log and by the lease.
func (k *Keeper) holding() (term cluster.Term, err error) {
	var last state.Term
	var ok bool
	k.o.Log.View(func(st *state.State) { last, ok = st.LastTerm() })
	if !ok || last.Holder != k.o.Self || !k.o.MayAct(last.Term) {
		return 0, fmt.Errorf("%w: term %d is %s's", ErrNotHolder, last.Term, last.Holder)
	}
	return last.Term, nil
}

// due reports whether the log has grown enough for a snapshot.
func (k *Keeper) due() bool {
	o := &k.o
	if o.Events < 0 {
		return false
	}
	since := k.Status().Since
	k.catalog.mu.Lock()
	defer k.catalog.mu.Unlock()
	return since >= uint64(o.Events) || since > 0 && o.Bytes > 0 && k.catalog.grown >= o.Bytes
}

// take takes a snapshot if this host is the holder and one is due or wished
// for.
func (k *Keeper) take(ctx context.Context) error {
	wishes := k.wishes.take()
	if len(wishes) == 0 && (!k.due() || k.paused() || time.Now().Before(k.notBefore)) {
		return nil
	}
	term, err := k.holding()
	if err != nil {
		grant(wishes, nil, err)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, signTimeout+k.o.IOTimeout)
	defer cancel()
	actor := ""
	if len(wishes) > 0 {
		actor = wishes[0].actor
	}
	t, err := k.takeIn(ctx, term, actor)
	if err != nil {
		k.notBefore = time.Now().Add(failedPause)
	}
	grant(wishes, t, err)
	return err
}

// takeIn takes a snapshot of everything that is durable here, for actor if not
// of its own.
func (k *Keeper) takeIn(ctx context.Context, term cluster.Term, actor string) (*event.SnapshotTaken, error) {
	started := time.Now()
	t := &event.SnapshotTaken{Term: term, Actor: actor}
	t.Heads, t.Forks = k.o.Store.SignedCut()
	if newest := k.catalog.newest(); newest != nil && !snapshot.Covers(t, newest) {
		return nil, fmt.Errorf("%w: chains end below the newest one, what they lack is being fetched", ErrSnapshot)
	}
	st, base, clock, err := k.folder.foldTo(ctx, t)
	if err != nil {
		return nil, err
	}
	if base != nil {
		t.Previous = base.ID
	}
	t.Clock = clock
	encoded, err := k.folder.fill(t, st)
	if err != nil {
		return nil, err
	}
	q, last, err := QuorumOf(st)
	if err != nil {
		return nil, err
	}
	if last.Term != term || last.Holder != k.o.Self {
		return nil, fmt.Errorf("%w: the cut ends in term %d of %s, this host holds %d", ErrSnapshot, last.Term, last.Holder, term)
	}
	t.ID = snapshot.ID(k.o.Cluster, t)
	k.folder.ready = &folded{id: t.ID, encoded: encoded}
	if t.Signatures, err = k.signing.collect(ctx, t, q); err != nil {
		return nil, err
	}
	if err := snapshot.Validate(k.o.Cluster, t); err != nil {
		return nil, err
	}
	if _, err := k.o.Log.Append(ctx, []event.Draft{{Term: term, Kind: event.KindSnapshot, Body: t}}); err != nil {
		return nil, fmt.Errorf("log a snapshot: %w", err)
	}
	k.m.seconds.Observe(time.Since(started).Seconds())
	k.m.done.WithLabelValues("take", "ok").Inc()
	// The writer has noted it by now.
	return t, k.adopt(ctx)
}

// adopt makes the snapshots of the log whose events are all here, and goes on
// from them.
func (k *Keeper) adopt(ctx context.Context) error {
	var errs []error
	for _, t := range k.catalog.toMake() { // the later holds all of the earlier
		if k.catalog.outdated(t) {
			continue
		}
		err := k.folder.holds(t)
		if errors.Is(err, store.ErrGap) {
			k.lacking(t) // not yet
			continue
		}
		if err != nil {
			k.catalog.refuse(t.ID, err.Error())
			continue
		}
		if err := k.adoptOne(ctx, t); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// gapPatience is how often events of a snapshot may be missing before they are
// looked for in the snapshot itself.
const gapPatience = 10

// lacking handles a snapshot whose events no host sends any more: when only
// snapshots still hold a forked chain, heads no longer name it.
func (k *Keeper) lacking(t *event.SnapshotTaken) {
	if len(t.Forks) == 0 || len(t.Signatures) == 0 {
		return
	}
	if k.gaps++; k.gaps < gapPatience {
		return
	}
	k.gaps = 0
	i := int(k.o.Float()*float64(len(t.Signatures))) % len(t.Signatures)
	if signer := t.Signatures[i].Node; signer != k.o.Self {
		k.fetcher.want(signer)
	}
}

func (k *Keeper) adoptOne(ctx context.Context, t *event.SnapshotTaken) error {
	var encoded []byte
	if r := k.folder.ready; r != nil && r.id == t.ID {
		encoded = r.encoded
	} else {
		st, _, _, err := k.folder.foldTo(ctx, t)
		if err != nil {
			return err
		}
		mine := *t
		if encoded, err = k.folder.fill(&mine, st); err != nil {
			return err
		}
		if mine.Sum != t.Sum || mine.State != t.State {
			k.catalog.alarm(t.ID, fmt.Sprintf("snapshot %s of term %d has state %s, this host folds the same events to %s", t.ID, t.Term, t.State, mine.State))
			return nil
		}
	}
	k.folder.ready, k.gaps = nil, 0
	st, err := decodeState(t, encoded)
	if err != nil {
		k.catalog.alarm(t.ID, "own encoding of the state does not decode: "+err.Error())
		return nil
	}
	q, _, err := QuorumOf(st)
	if err == nil {
		_, err = snapshot.Check(k.o.Cluster, t, q, k.o.Store.KeyOf)
	}
	if err == nil {
		err = k.folder.checkHeads(t)
	}
	if err != nil {
		k.catalog.refuse(t.ID, err.Error())
		return nil
	}
	if err := k.files.save(t, encoded); err != nil {
		return err
	}
	if err := k.GoOnFrom(ctx, t, st); err != nil {
		return err
	}
	k.m.done.WithLabelValues("make", "ok").Inc()
	k.log.Info().Str("snapshot", t.ID.String()).Uint64("events", snapshot.Events(t)).Int64("bytes", t.Size).
		Uint64("term", uint64(t.Term)).Int("signers", len(t.Signatures)).Msg("snapshot")
	return k.prune()
}

// prune removes the files of snapshots that are too old to be of use.
func (k *Keeper) prune() error {
	names, _, err := k.files.Names()
	if err != nil {
		return err
	}
	kept := k.catalog.all()
	names = slices.DeleteFunc(names, func(n string) bool {
		return slices.ContainsFunc(kept, func(t *event.SnapshotTaken) bool { return snapshot.FileName(t) == n })
	})
	return k.files.remove(names...)
}
