package eventlog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/snapshot"
	"github.com/skein-project/skein/eventlog/state"
)

const (
	// maxNoted is how many snapshots of the log wait to be made here. Full:
	// the one with the smallest cut is forgotten, the later hold more.
	maxNoted = 4
	// maxRefused is how many ids are remembered that this host found wrong.
	// Full: all are forgotten, and judged again if they come again.
	maxRefused = 64
)

var (
	// ErrNotHolder says that only the holder takes snapshots.
	ErrNotHolder = errors.New("not the holder of the lease")
	// ErrSnapshot is wrapped when a snapshot could not be taken or is not
	// believed.
	ErrSnapshot = errors.New("snapshot not usable")
)

// snapshots takes, makes, fetches and serves snapshots, and drops what they
// make superfluous. Its goroutine does one thing at a time, so that at most
// one state is folded beside the log's own.
type snapshots struct {
	l     *Log
	store snapshotStore
	m     *snapshotMetrics
	wake  chan struct{} // capacity 1; a token means "look"; full: drop, one is enough

	// files is held for writing while files of the log are being dropped, and
	// for reading by those who walk them.
	files sync.RWMutex

	// The writer's while the log runs; before, of the goroutine that opens it.
	manifest *snapshot.Manifest

	reclaimable atomic.Int64

	mu       sync.Mutex
	kept     []*cluster.SnapshotTaken // on disk and sound, the smallest cut first
	noted    []*cluster.SnapshotTaken // in the log, not made here yet, the smallest cut first
	refused  map[cluster.Hash]string  // why a snapshot of the log is wrong here
	asked    *proposal                // the last one that another host wants signed
	wanted   cluster.NodeID           // a peer that has dropped what this host lacks
	waiting  []*snapshotWish          // callers of TakeSnapshot
	grown    int64                    // bytes in the log beyond the last kept snapshot, about
	trouble  string                   // what went wrong last; empty: nothing since
	mismatch string                   // why the last mismatch alarms; for ever

	// The goroutine's.
	ready     *folded   // the state that the last proposal is about
	gaps      int       // how often in a row events of a noted snapshot were missing
	notBefore time.Time // no snapshot is taken for size before
}

// proposal is a snapshot that another host wants signed.
type proposal struct {
	taken *cluster.SnapshotTaken
	from  cluster.NodeID
	done  bool
	err   error
}

// snapshotWish is one caller that waits for a snapshot.
type snapshotWish struct {
	actor string
	done  chan struct{} // closed when taken and err are set
	taken *cluster.SnapshotTaken
	err   error
}

// folded is a state at a cut, encoded.
type folded struct {
	id      cluster.Hash // of the snapshot it was made for
	encoded []byte
	st      *state.State
}

func newSnapshots(l *Log) (*snapshots, error) {
	m, err := newSnapshotMetrics(l.o.Registerer)
	if err != nil {
		return nil, err
	}
	return &snapshots{
		l: l, m: m, store: snapshotStore{fs: l.fs, dir: l.o.Dir, cluster: l.o.Cluster},
		wake: make(chan struct{}, 1), refused: map[cluster.Hash]string{},
		manifest: &snapshot.Manifest{Cluster: l.o.Cluster},
	}, nil
}

// run looks after snapshots until ctx ends: at once when there is something
// to do, and now and then.
func (s *snapshots) run(ctx context.Context) {
	tick := time.NewTicker(s.l.o.SnapshotCheck)
	defer tick.Stop()
	defer s.refuseWishes(ErrClosed)
	for {
		s.step(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.wake:
		}
	}
}

// step does what there is to do.
func (s *snapshots) step(ctx context.Context) {
	for _, do := range []struct {
		name string
		f    func(context.Context) error
	}{
		{"sign", s.judge},
		{"make", s.adopt},
		{"fetch", s.fetch},
		{"take", s.take},
		{"compact", s.compact},
	} {
		if ctx.Err() != nil {
			return
		}
		err := do.f(ctx)
		if err != nil && ctx.Err() == nil {
			s.m.done.WithLabelValues(do.name, "failed").Inc()
			s.mu.Lock()
			old := s.trouble
			s.trouble = fmt.Sprintf("%s: %v", do.name, err)
			level := zerolog.WarnLevel
			if s.trouble == old { // said once
				level = zerolog.DebugLevel
			}
			s.mu.Unlock()
			s.l.log.WithLevel(level).Err(err).Str("doing", do.name).Msg("snapshot")
		}
	}
}

func (s *snapshots) poke() {
	select {
	case s.wake <- struct{}{}:
	default: // a token is already there
	}
}

// note looks for snapshots among durable events, and keeps those that this
// host has yet to make. It does not block.
func (s *snapshots) note(events []cluster.Event) {
	for _, e := range events {
		if e.Kind != cluster.KindSnapshot {
			continue
		}
		t, err := snapshot.Decode(s.l.o.Cluster, e.Body)
		if err != nil {
			s.refuse(cluster.Hash{}, fmt.Sprintf("%s, event %d: %v", e.Source, e.Seq, err))
			continue
		}
		s.mu.Lock()
		s.noteLocked(t)
		s.mu.Unlock()
		s.poke()
	}
}

func (s *snapshots) noteLocked(t *cluster.SnapshotTaken) {
	if _, ok := s.refused[t.ID]; ok || s.outdatedLocked(t) {
		return
	}
	if slices.ContainsFunc(s.noted, func(o *cluster.SnapshotTaken) bool { return o.ID == t.ID }) {
		return
	}
	s.noted = append(s.noted, t)
	slices.SortFunc(s.noted, func(a, b *cluster.SnapshotTaken) int {
		return cmpUint(snapshot.Events(a), snapshot.Events(b))
	})
	if len(s.noted) > maxNoted {
		s.noted = slices.Delete(s.noted, 0, 1)
	}
}

func cmpUint(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// outdatedLocked reports whether t brings nothing beyond what is kept.
func (s *snapshots) outdatedLocked(t *cluster.SnapshotTaken) bool {
	n := len(s.kept)
	return n > 0 && !snapshot.Covers(t, s.kept[n-1]) || n > 0 && t.ID == s.kept[n-1].ID
}

// refuse remembers that a snapshot in the log is wrong here. Nothing is ever
// dropped for it.
func (s *snapshots) refuse(id cluster.Hash, why string) {
	s.m.done.WithLabelValues("make", "refused").Inc()
	s.l.log.Error().Str("snapshot", id.String()).Str("why", why).Msg("snapshot in the log refused")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble = why
	if id.IsZero() {
		return
	}
	if len(s.refused) >= maxRefused {
		clear(s.refused)
	}
	s.refused[id] = why
	s.noted = slices.DeleteFunc(s.noted, func(t *cluster.SnapshotTaken) bool { return t.ID == id })
}

// alarm says that two hosts fold the same events to different states.
func (s *snapshots) alarm(id cluster.Hash, why string) {
	s.m.mismatches.Inc()
	s.mu.Lock()
	s.mismatch = why
	s.mu.Unlock()
	s.refuse(id, why)
}

// newest returns the snapshot that the log goes on from, nil for none.
func (s *snapshots) newest() *cluster.SnapshotTaken {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.kept); n > 0 {
		return s.kept[n-1]
	}
	return nil
}

// find returns a kept snapshot.
func (s *snapshots) find(id cluster.Hash) *cluster.SnapshotTaken {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.kept {
		if t.ID == id {
			return t
		}
	}
	return nil
}

// grew notes that the log got longer.
func (s *snapshots) grew(n int64) {
	s.mu.Lock()
	s.grown += n
	s.mu.Unlock()
}

// quorumOf says who must have signed a snapshot with this state: the voters of
// its last term, or those that this term has confirmed since.
func quorumOf(st *state.State) (q snapshot.Quorum, term state.Term, err error) {
	term, ok := st.LastTerm()
	if !ok {
		return q, term, fmt.Errorf("%w: no term has begun", ErrSnapshot)
	}
	q = snapshot.Quorum{Voters: term.Voters, All: term.Split}
	if cfg := st.Voters(); !cfg.IsZero() && cfg.Term >= term.Term {
		q = snapshot.Quorum{Voters: cfg.Voters, All: cfg.Split() || term.Split}
	}
	return q, term, nil
}

// foldTo folds exactly the events up to the cut of to, with its forks and no
// others, on from the newest kept snapshot within.
func (s *snapshots) foldTo(ctx context.Context, to *cluster.SnapshotTaken) (st *state.State, base *cluster.SnapshotTaken, clock cluster.HLC, err error) {
	s.mu.Lock()
	kept := slices.Clone(s.kept)
	s.mu.Unlock()
	st = state.New()
	for _, t := range slices.Backward(kept) {
		if !snapshot.Covers(to, t) {
			continue
		}
		_, from, err := s.store.load(snapshot.FileName(t))
		if err != nil {
			s.l.log.Error().Err(err).Msg("snapshot unreadable")
			continue
		}
		base, st, clock = t, from, t.Clock
		break
	}
	stale := false
	for _, f := range to.Forks {
		stale = st.Fork(f.Source, f.Seq) || stale
	}
	again, last, err := s.advance(ctx, st, to.Heads)
	if err == nil && (stale || again) {
		err = s.l.refold(st, base, to.Heads)
	}
	return st, base, max(clock, last), err
}

// advance applies to st the events beyond its positions up to heads. It leaves
// the processor to others about half of the time.
func (s *snapshots) advance(ctx context.Context, st *state.State, heads []cluster.Head) (stale bool, clock cluster.HLC, err error) {
	p := pacer{ctx: ctx, began: time.Now()}
	for _, h := range heads {
		after := st.Seq(h.Source)
		if after > h.Seq {
			return false, 0, fmt.Errorf("%w: state of %s at seq %d, wanted at %d", ErrSnapshot, h.Source, after, h.Seq)
		}
		if after == h.Seq {
			continue
		}
		var last cluster.Event
		err := s.l.readUpTo(h, after, func(e cluster.Event) bool {
			stale = st.Apply(e) || stale
			last = e
			return p.pause()
		})
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err == nil && last.Hash != h.Hash {
			err = fmt.Errorf("%w: event %d of %s has hash %s here, %s in the cut", ErrSnapshot, h.Seq, h.Source, last.Hash, h.Hash)
		}
		if err != nil {
			return false, 0, fmt.Errorf("fold up to a cut: %w", err)
		}
		clock = max(clock, last.HLC)
	}
	return stale, clock, nil
}

// pacer rests as long as it works.
type pacer struct {
	ctx   context.Context
	began time.Time
	steps int
}

const (
	paceSteps = 256
	paceWork  = 5 * time.Millisecond
)

// pause reports false when the context has ended.
func (p *pacer) pause() bool {
	if p.steps++; p.steps%paceSteps != 0 {
		return true
	}
	if worked := time.Since(p.began); worked >= paceWork {
		if !after(p.ctx, worked) {
			return false
		}
		p.began = time.Now()
	}
	return p.ctx.Err() == nil
}

// holds reports the first position of a cut that this log does not hold, or
// holds with another event.
func (s *snapshots) holds(t *cluster.SnapshotTaken) error {
	for _, h := range t.Heads {
		have := s.l.Head(h.Source)
		if have.Seq < h.Seq {
			return fmt.Errorf("%w: %s ends at seq %d, the cut at %d", errGap, h.Source, have.Seq, h.Seq)
		}
		hash, ok := s.l.hashAt(h.Source, h.Seq)
		if ok && hash != h.Hash {
			return fmt.Errorf("%w: event %d of %s has hash %s here, %s in the cut", ErrSnapshot, h.Seq, h.Source, hash, h.Hash)
		}
		if !ok && h.Seq > s.l.baseOf(h.Source).Seq {
			return fmt.Errorf("%w: event %d of %s cannot be read", ErrSnapshot, h.Seq, h.Source)
		}
	}
	return nil
}

// checkHeads verifies the signatures of a cut by their sources, as far as
// these are known.
func (s *snapshots) checkHeads(t *cluster.SnapshotTaken) error {
	for _, h := range t.Heads {
		if len(h.Sig) == 0 {
			continue // of a forked source
		}
		if key := s.l.o.keyOf(h.Source.Node); key != nil {
			if err := record.VerifyHead(s.l.o.Cluster, h, key); err != nil {
				return fmt.Errorf("%w: head of %s: %w", ErrSnapshot, h.Source, err)
			}
		}
	}
	return nil
}

// baseOf returns up to where a chain was dropped.
func (l *Log) baseOf(src cluster.SourceID) cluster.Mark {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if c := l.chains[src]; c != nil {
		return c.floor
	}
	return cluster.Mark{}
}

// SnapshotStatus is what a log tells of its snapshots.
type SnapshotStatus struct {
	Kept        []SnapshotInfo `json:"kept"` // the newest last
	Since       uint64         `json:"events_since"`
	Reclaimable int64          `json:"reclaimable_bytes"` // of segments below the older kept snapshot
	Dropped     uint64         `json:"events_dropped"`
	Archived    int            `json:"segments_archived"`
	// Refused are the latest events that have no effect since they would change
	// what a snapshot holds, and RefusedEvents how many there are.
	RefusedEvents uint64          `json:"refused_events"`
	Refused       []state.Refusal `json:"refused,omitempty"`
	// Trouble is what failed last, empty if nothing did since the last success.
	Trouble string `json:"trouble,omitempty"`
	// Mismatch says that this host and others fold the same events to
	// different states.
	Mismatch string `json:"mismatch,omitempty"`
}

// SnapshotInfo describes one snapshot.
type SnapshotInfo struct {
	ID      cluster.Hash     `json:"id"`
	Term    cluster.Term     `json:"term"`
	Events  uint64           `json:"events"` // that it stands for
	Clock   cluster.HLC      `json:"clock"`  // of the last of them
	Bytes   int64            `json:"bytes"`
	State   cluster.Hash     `json:"state_hash"`
	Signers []cluster.NodeID `json:"signers"`
}

func infoOf(t *cluster.SnapshotTaken) SnapshotInfo {
	info := SnapshotInfo{ID: t.ID, Term: t.Term, Events: snapshot.Events(t), Clock: t.Clock, Bytes: t.Size, State: t.State}
	for _, sig := range t.Signatures {
		info.Signers = append(info.Signers, sig.Node)
	}
	return info
}

// Snapshots tells what snapshots there are and what could be dropped.
func (l *Log) Snapshots() SnapshotStatus {
	s := l.snap
	total := uint64(0)
	for _, h := range l.Heads() {
		total += h.Seq
	}
	st := SnapshotStatus{Kept: []SnapshotInfo{}, Since: total}
	for _, n := range l.Oldest() {
		st.Dropped += n
	}
	l.mu.RLock()
	for _, d := range s.manifest.Segments {
		if d.Archived != "" {
			st.Archived++
		}
	}
	l.mu.RUnlock()
	l.View(func(fold *state.State) { st.RefusedEvents, st.Refused = fold.Refused() })
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.kept {
		st.Kept = append(st.Kept, infoOf(t))
		st.Since = total - min(total, snapshot.Events(t))
	}
	st.Trouble, st.Mismatch, st.Reclaimable = s.trouble, s.mismatch, s.reclaimable.Load()
	return st
}

// sourcesOf lists the chains of the directory, of the newest snapshot and of
// the manifest.
func (s *snapshots) sourcesOf(dirs []cluster.SourceID) []cluster.SourceID {
	all := map[cluster.SourceID]bool{}
	for _, src := range dirs {
		all[src] = true
	}
	if t := s.newest(); t != nil {
		for _, h := range t.Heads {
			all[h.Source] = true
		}
	}
	for _, b := range s.manifest.Bases {
		all[b.Source] = true
	}
	return slices.SortedFunc(maps.Keys(all), cluster.SourceID.Compare)
}
