package audit

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/snapshots"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/eventlog/wire"
)

// Marks of a Rewind.
const (
	// markEvery is how many events lie between two marks, markMost how many marks there
	// are: those of 200,000 events, none of whose jobs has ended, take 90 MB.
	markEvery = 16 << 10
	markMost  = 12
	// markLife is for how long marks stay that nobody uses.
	markLife = 5 * time.Minute
	// maxAgain is how often a replay stops to fold again what an event voided, before it
	// does so once at its end.
	maxAgain = 4
)

// OpenLog is a log that is being written. It finds events faster than a Dir.
type OpenLog interface {
	Heads() []event.Head
	Oldest() event.Cursor
	Forks() []wire.Fork
	LastBefore(h event.Head, before func(cluster.HLC) bool) (uint64, error)
	Between(from event.Cursor, to []event.Head) iter.Seq2[event.Event, error]
}

// Rewind replays an open log up to one moment after the other, as whoever drags a
// slider asks for them. It keeps the states of some moments, and begins at the last one
// before the moment that is asked for. Its methods may be called from any goroutine; one
// replay runs at a time.
type Rewind struct {
	log   OpenLog
	hold  func() (done func())
	files snapshots.Files
	every int

	mu    sync.Mutex
	marks []mark      // by position, the earliest first
	last  mark        // of the last replay, for whoever goes on from there
	forks []wire.Fork // that the marks know
	idle  *time.Timer // drops them
}

// mark is the state of a log at a moment: of all events up to a position, judged by no
// event that came later.
type mark struct {
	at    event.Cursor
	clock cluster.HLC // the highest
	state *state.State
}

// NewRewind returns a Rewind of an open log, whose snapshots lie in files and of which
// hold keeps what is dropped until it is done. It keeps a mark each so many events; 0: as
// many as usual.
func NewRewind(log OpenLog, hold func() (done func()), files VerifyOptions, every int) *Rewind {
	return &Rewind{
		log: log, hold: hold, files: snapshots.Files{FS: files.FS, Dir: files.Dir, Cluster: files.Cluster}, every: cmp.Or(every, markEvery),
	}
}

// At folds the log up to the last event whose clock is at most clock. The result is that
// of ReplayAt of the same events.
func (r *Rewind) At(ctx context.Context, clock cluster.HLC) (*state.State, Replayed, error) {
	st, out, err := r.replay(ctx, clock)
	if err != nil {
		return nil, out, fmt.Errorf("replay event log: %w", err)
	}
	return st, out, nil
}

func (r *Rewind) replay(ctx context.Context, clock cluster.HLC) (*state.State, Replayed, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.rest()
	defer r.hold()()
	until, err := endsAt(r.log, r.log.Heads(), At{Clock: clock})
	if err != nil {
		return nil, Replayed{}, err
	}
	if forks := r.log.Forks(); !slices.Equal(forks, r.forks) {
		r.marks, r.last, r.forks = nil, mark{}, forks // what the marks hold of a chain may not count
	}
	m, stale, err := r.begin(until, clock)
	if err != nil {
		return nil, Replayed{}, err
	}
	if m, err = r.fold(ctx, m, stale, until); err != nil {
		return nil, Replayed{}, err
	}
	out := Replayed{Position: store.EndOf(until), Last: m.clock, StateHash: m.state.Hash()}
	out.Events, out.Void, out.Malformed = m.state.Counts()
	return m.state, out, nil
}

// begin is the last mark, or the newest snapshot if that is nearer, that reaches no
// further than until.
func (r *Rewind) begin(until []event.Head, clock cluster.HLC) (m mark, stale bool, err error) {
	old, end := r.log.Oldest(), store.EndOf(until)
	for _, k := range append(slices.Clone(r.marks), r.last) {
		if k.state != nil && k.total() >= m.total() && within(k.at, end) && store.NotCompacted(k.at, old) == nil {
			m = k
		}
	}
	base, stale, err := r.base(until, clock, m.total())
	if m.state != nil && (err != nil || base.total() <= m.total()) {
		return m, false, nil
	}
	return base, stale, err
}

// base is the newest snapshot that reaches no further than until and holds more than so
// many events, else the beginning; stale says that it must be folded again to know the
// forks.
func (r *Rewind) base(until []event.Head, clock cluster.HLC, more uint64) (m mark, stale bool, err error) {
	p, err := loadPast(r.files, true)
	if err != nil {
		return mark{}, false, err
	}
	m = mark{at: event.Cursor{}, state: state.New()}
	for _, t := range p.kept {
		at := store.EndOf(t.Heads)
		if t.Clock > clock || !within(at, store.EndOf(until)) || (mark{at: at}).total() <= more {
			continue
		}
		if st, err := p.load(t); err == nil { // else an older one serves
			m = mark{at: at, clock: t.Clock, state: st}
			break
		}
	}
	for _, f := range r.forks {
		stale = m.state.Fork(f.Source, f.Seq) || stale
	}
	return m, stale, store.NotCompacted(m.at, r.log.Oldest())
}

func within(at, end event.Cursor) bool {
	for src, seq := range at {
		if end[src] < seq {
			return false
		}
	}
	return true
}

func (m mark) clone() mark { return mark{at: m.at.Clone(), clock: m.clock, state: m.state.Clone()} }

// total is how many events are folded.
func (m mark) total() (n uint64) {
	for _, seq := range m.at {
		n += seq
	}
	return n
}

// fold goes on from a mark up to until. It keeps marks on the way, and where it ends.
func (r *Rewind) fold(ctx context.Context, from mark, stale bool, until []event.Head) (mark, error) {
	m := from.clone()
	events, again := 0, 0
	for e, err := range r.log.Between(from.at, until) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return mark{}, err
		}
		stale = m.state.Apply(e) || stale
		m.at.Advance(e.Source, e.Seq)
		m.clock = max(m.clock, e.HLC)
		if stale && again < maxAgain {
			// Folded again up to here, what follows can be kept.
			if err := r.refold(ctx, m); err != nil {
				return mark{}, err
			}
			stale, again = false, again+1
		}
		if events++; events%r.every == 0 && !stale {
			r.keep(m.clone())
		}
	}
	if stale {
		if err := r.refold(ctx, m); err != nil {
			return mark{}, err
		}
	}
	r.last = m
	return m, nil
}

// refold folds a mark again, of which an event voids what was folded before it.
func (r *Rewind) refold(ctx context.Context, m mark) error {
	var to []event.Head
	for _, src := range m.at.Sources() {
		to = append(to, event.Head{Source: src, Seq: m.at[src]})
	}
	base, _, err := r.base(to, m.clock, 0)
	if err != nil {
		return err
	}
	m.state.Refold(base.state, func(yield func(event.Event) bool) {
		for e, next := range r.log.Between(base.at, to) {
			if err == nil {
				err = next
			}
			if err == nil {
				err = ctx.Err()
			}
			if err != nil || !yield(e) {
				return
			}
		}
	})
	return err
}

// keep keeps a mark. Of too many that one goes whose neighbours are nearest to each
// other.
func (r *Rewind) keep(m mark) {
	i, found := slices.BinarySearchFunc(r.marks, m, func(a, b mark) int { return cmp.Compare(a.clock, b.clock) })
	if found { // with what has come late
		r.marks[i] = m
		return
	}
	r.marks = slices.Insert(r.marks, i, m)
	if len(r.marks) <= markMost {
		return
	}
	drop, least := -1, uint64(0)
	for k := range len(r.marks) - 1 {
		before := uint64(0)
		if k > 0 {
			before = r.marks[k-1].total()
		}
		if gap := r.marks[k+1].total() - before; k != i && (drop < 0 || gap < least) {
			drop, least = k, gap
		}
	}
	r.marks = slices.Delete(r.marks, drop, drop+1)
}

// rest has marks that nobody uses dropped.
func (r *Rewind) rest() {
	if r.idle != nil {
		r.idle.Stop()
	}
	r.idle = time.AfterFunc(markLife, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.marks, r.last = nil, mark{}
	})
}
