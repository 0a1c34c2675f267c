package audit

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/eventlog/snapshot"
	"github.com/skein-project/skein/eventlog/snapshots"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/store"
)

// past is what a log that is read knows of its snapshots, and of what was
// dropped.
type past struct {
	files    snapshots.Files
	manifest *snapshot.Manifest
	kept     []*event.SnapshotTaken // the newest first
}

// loadPast reads the manifest and the descriptions of the snapshots. Damage is an
// error, unless lenient says to skip what is damaged.
func loadPast(files snapshots.Files, lenient bool) (p past, err error) {
	p.files = files
	if p.manifest, err = files.Manifest(); err != nil {
		return p, err
	}
	for _, name := range snapshots.Manifests() {
		if _, err := files.ReadManifest(name); err != nil && !lenient {
			return p, err
		}
	}
	names, _, err := files.Names()
	if err != nil {
		return p, err
	}
	for _, name := range names {
		f, t, _, err := files.Open(name)
		if err != nil && lenient {
			continue
		}
		if err != nil {
			return p, segment.Damaged(files.Path(name), err)
		}
		_ = f.Close() // opened for reading
		p.kept = append(p.kept, t)
	}
	return p, nil
}

// floor returns up to where the events of a chain were dropped, with the
// signature of its source if a snapshot has it.
func (p *past) floor(src event.SourceID) event.Head {
	base := p.manifest.Base(src)
	for _, t := range p.kept {
		if h := snapshot.HeadOf(t, src); h.Seq == base.Seq {
			return h
		}
	}
	return event.Head{Source: src, Seq: base.Seq, Hash: base.Hash}
}

func (p *past) load(t *event.SnapshotTaken) (*state.State, error) {
	name := snapshot.FileName(t)
	_, st, err := p.files.Load(name)
	if err != nil {
		return nil, segment.Damaged(p.files.Path(name), err)
	}
	return st, nil
}

// within returns the newest snapshot that reaches no further than until, and
// its state; nil for none. One that cannot be read is skipped.
func (p *past) within(until []event.Head) (*event.SnapshotTaken, *state.State) {
	end := store.EndOf(until)
	for _, t := range p.kept {
		if slices.ContainsFunc(t.Heads, func(h event.Head) bool { return end[h.Source] < h.Seq }) {
			continue
		}
		if st, err := p.load(t); err == nil {
			return t, st
		}
	}
	return nil, nil
}

// base returns the oldest snapshot that holds everything that was dropped; nil
// if nothing was.
func (p *past) base() (*event.SnapshotTaken, error) {
	if len(p.manifest.Bases) == 0 {
		return nil, nil
	}
	for _, t := range slices.Backward(p.kept) {
		if !slices.ContainsFunc(p.manifest.Bases, func(b event.SourceMark) bool {
			h := snapshot.HeadOf(t, b.Source)
			return h.Seq < b.Seq || h.Seq == b.Seq && h.Hash != b.Hash
		}) {
			return t, nil
		}
	}
	b := p.manifest.Bases[0]
	return nil, &segment.CorruptError{
		Segment: p.files.Path(""), Source: b.Source, Seq: b.Seq,
		Reason: "events were dropped, and no sound snapshot holds what the manifest says of them",
	}
}

// foldPast folds the whole log and checks on the way that the events up to the
// newest snapshot give its state: from the first event, or, if some were
// dropped, from the snapshot that holds these. walk reads all chains, again
// from the newest snapshot on.
func (v *verifier) foldPast(ctx context.Context) (*state.State, error) {
	base, err := v.past.base()
	if err != nil && !v.o.ChainsOnly {
		return nil, err
	}
	st, known := state.New(), v.past.kept
	if base != nil && !v.o.ChainsOnly {
		if st, err = v.past.load(base); err != nil {
			return nil, err
		}
	}
	var target *event.SnapshotTaken
	if len(known) > 0 {
		target = known[0]
		for _, f := range target.Forks {
			v.stale = st.Fork(f.Source, f.Seq) || v.stale
		}
	} else {
		v.tellForks(st)
	}
	err = v.foldUpTo(ctx, st, base, target, true)
	if err == nil {
		err = v.checkCuts(ctx)
	}
	if err != nil || target == nil || v.o.ChainsOnly {
		return st, err
	}
	if v.holds(target) {
		if err := v.compare(st, target); err != nil {
			return nil, err
		}
	}
	for _, t := range slices.Backward(v.past.kept) { // the newest last
		if st, err = v.past.load(t); err != nil {
			return nil, err
		}
		if err := v.checkSigners(st, t); err != nil {
			return nil, err
		}
		v.report.Snapshots++
	}
	v.tellForks(st)
	v.after = target
	return st, v.foldUpTo(ctx, st, target, nil, false)
}

// tellForks tells the fold where chains fork.
func (v *verifier) tellForks(st *state.State) {
	for _, f := range v.report.Forks {
		v.stale = st.Fork(f.Source, f.Seq) || v.stale
	}
}

// foldUpTo applies the events that walk yields up to a snapshot's cut, nil for
// all, to st, which goes on from base.
func (v *verifier) foldUpTo(ctx context.Context, st *state.State, base, upto *event.SnapshotTaken, first bool) error {
	within := func(e event.Event) bool { return upto == nil || e.Seq <= snapshot.HeadOf(upto, e.Source).Seq }
	err := v.walk(ctx, first, func(e event.Event) error {
		if !v.o.ChainsOnly && within(e) {
			v.stale = st.Apply(e) || v.stale
		}
		return nil
	})
	if err != nil || !v.stale {
		return err
	}
	v.stale = false
	var from *state.State
	if base != nil {
		if from, err = v.past.load(base); err != nil {
			return err
		}
	}
	st.Refold(from, func(yield func(event.Event) bool) {
		err = v.walk(ctx, false, func(e event.Event) error {
			if within(e) {
				yield(e) // Refold reads to the end
			}
			return nil
		})
	})
	return err
}

// holds reports whether the chains reach the cut of a snapshot. Where they do not,
// what is missing is being fetched.
func (v *verifier) holds(t *event.SnapshotTaken) bool {
	ends := map[event.SourceID]uint64{}
	for _, m := range v.report.Ends {
		ends[m.Source] = m.Seq
	}
	return !slices.ContainsFunc(t.Heads, func(h event.Head) bool { return ends[h.Source] < h.Seq })
}

// compare checks that a fold is the state that a snapshot holds.
func (v *verifier) compare(st *state.State, t *event.SnapshotTaken) error {
	encoded, err := st.AppendBinary(nil)
	if err != nil {
		return err
	}
	if h := st.Hash(); h != t.State || sha256.Sum256(encoded) != t.Sum {
		return &segment.CorruptError{
			Segment: v.past.files.Path(snapshot.FileName(t)),
			Reason:  fmt.Sprintf("the events up to its cut give state %s, the snapshot has %s", h, t.State),
		}
	}
	return nil
}

// checkSigners checks the signatures under a snapshot, as far as the keys of
// its voters are known.
func (v *verifier) checkSigners(st *state.State, t *event.SnapshotTaken) error {
	q, _, err := snapshots.QuorumOf(st)
	if err != nil {
		return segment.Damaged(v.past.files.Path(snapshot.FileName(t)), err)
	}
	good, err := snapshot.Check(v.o.Cluster, t, q, v.o.KeyOf)
	unknown := slices.ContainsFunc(q.Voters, func(n cluster.NodeID) bool { return v.o.KeyOf(n) == nil })
	if errors.Is(err, snapshot.ErrForged) || err != nil && !unknown && !v.attested(t) {
		return segment.Damaged(v.past.files.Path(snapshot.FileName(t)), err)
	}
	v.report.Signers = len(good)
	return nil
}

// attested reports whether signatures of others than the snapshot's own voters
// are under it: it was fetched, and vouched for by the voters of then.
func (v *verifier) attested(t *event.SnapshotTaken) bool {
	return len(v.past.manifest.Bases) > 0 && len(t.Signatures) > 0
}
