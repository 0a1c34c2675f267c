package past

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/store"
)

// fakeLog is a log in memory. Clocks rise along each chain.
type fakeLog struct {
	chains map[event.SourceID][]time.Time
	oldest event.Cursor
	looks  int
	replay func(ctx context.Context, at audit.At) error
}

func (l *fakeLog) ReplayAt(ctx context.Context, at audit.At) (*state.State, audit.Replayed, error) {
	if err := l.replay(ctx, at); err != nil {
		return nil, audit.Replayed{}, err
	}
	return state.New(), audit.Replayed{Last: at.Clock}, nil
}

// Rewind is not asked by these tests, see past.
func (l *fakeLog) Rewind() *audit.Rewind { return nil }

func (l *fakeLog) Heads() (list []event.Head) {
	for src, times := range l.chains {
		list = append(list, event.Head{Source: src, Seq: uint64(len(times))})
	}
	return list
}

func (l *fakeLog) Oldest() event.Cursor { return l.oldest }

func (l *fakeLog) LastBefore(h event.Head, before func(cluster.HLC) bool) (uint64, error) {
	l.looks++
	seq := l.oldest[h.Source]
	for _, at := range l.chains[h.Source][seq:] {
		if !before(cluster.NewHLC(at, 0)) {
			break
		}
		seq++
	}
	return seq, nil
}

func (l *fakeLog) After(_ context.Context, at event.Cursor, _ store.Filter) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		var first event.Event
		for src, times := range l.chains {
			if seq := at[src]; seq < uint64(len(times)) {
				if c := cluster.NewHLC(times[seq], 0); first.HLC == 0 || c < first.HLC {
					first = event.Event{Source: src, Seq: seq + 1, HLC: c}
				}
			}
		}
		if first.Seq > 0 {
			yield(first, nil)
		}
	}
}

// past is one of a log that is replayed alike, whatever it is asked.
func past(l *fakeLog) *Past {
	return New("n1", l, func(ctx context.Context, at cluster.HLC) (*state.State, audit.Replayed, error) {
		return l.ReplayAt(ctx, audit.At{Clock: at})
	})
}

// TestDensity counts events by their borders, and compares with counting each.
func TestDensity(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	l := &fakeLog{chains: map[event.SourceID][]time.Time{}, oldest: event.Cursor{{Node: "n2", Inc: 1}: 7}}
	for _, node := range []cluster.NodeID{"n1", "n2", "n3"} {
		at := begin
		for range 100 + r.IntN(900) {
			if at = at.Add(time.Duration(r.IntN(3)) * time.Millisecond); r.IntN(100) == 0 {
				at = at.Add(time.Hour) // nothing happens for a while
			}
			src := event.SourceID{Node: node, Inc: 1}
			l.chains[src] = append(l.chains[src], at)
		}
	}
	p := past(l)
	for _, c := range []struct {
		from  time.Time
		to    time.Time
		spans int
	}{
		{to: begin.Add(99 * time.Hour), spans: 120},
		{to: begin.Add(3 * time.Hour), spans: 1},
		{from: begin.Add(time.Hour), to: begin.Add(5 * time.Hour), spans: 7},
		{from: begin.Add(-time.Hour), to: begin.Add(time.Millisecond), spans: 1000},
	} {
		d, err := p.Density(t.Context(), c.from, c.to, c.spans)
		if err != nil {
			t.Fatal(err)
		}
		if c.from.IsZero() {
			c.from = begin // of the chains that are kept from the beginning on
		}
		if d.From.Before(c.from) || d.From.After(c.from.Add(time.Second)) || !d.To.Equal(c.to) {
			t.Errorf("from %s to %s, want from about %s to %s", d.From, d.To, c.from, c.to)
		}
		want := make([]uint64, c.spans)
		span := d.To.Sub(d.From) / time.Duration(c.spans)
		for src, times := range l.chains {
			for _, at := range times[l.oldest[src]:] {
				if !at.Before(d.From) && at.Before(d.To) {
					want[min(int(at.Sub(d.From)/span), c.spans-1)]++
				}
			}
		}
		if !slices.Equal(d.Events, want) {
			t.Errorf("%d spans from %s: %v, want %v", c.spans, d.From, d.Events, want)
		}
	}
	l.looks = 0
	if _, err := p.Density(t.Context(), begin.Add(-1000*time.Hour), begin.Add(-999*time.Hour), 1000); err != nil || l.looks > 2*len(l.chains) {
		t.Errorf("%d looks for a time in which nothing happened: %v", l.looks, err)
	}
	for _, c := range [][2]time.Time{{begin, begin}, {begin, begin.Add(-time.Second)}} {
		if _, err := p.Density(t.Context(), c[0], c[1], 5); !isCode(err, api.CodeInvalidRequest) {
			t.Errorf("from %s to %s: %v", c[0], c[1], err)
		}
	}
	if _, err := past(&fakeLog{}).Density(t.Context(), time.Time{}, begin, 5); !isCode(err, api.CodeInvalidRequest) {
		t.Errorf("of an empty log: %v", err)
	}
}

func isCode(err error, code api.Code) bool {
	p, ok := errors.AsType[*api.Problem](err)
	return ok && p.Code == code
}

// TestLatestReplayWins has one replay run and others come: of these only the last one
// goes on, and the others are told at once.
func TestLatestReplayWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most int
		var done []cluster.HLC
		l := &fakeLog{replay: func(ctx context.Context, at audit.At) error {
			running++
			most = max(most, running)
			defer func() { running-- }()
			select {
			case <-time.After(time.Second):
				done = append(done, at.Clock)
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		p := past(l)
		begin := time.Now()
		results := make([]error, 50)
		var all sync.WaitGroup
		for i := range results {
			all.Go(func() {
				_, results[i] = p.Replay(t.Context(), api.ReplayAt{Time: begin.Add(time.Duration(i) * time.Minute)})
			})
			synctest.Wait()
		}
		all.Wait()
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("took %s, want two replays of a second each", took)
		}
		for i, err := range results[1 : len(results)-1] {
			if !isCode(err, api.CodeOverloaded) {
				t.Errorf("replay %d: %v", i+1, err)
			}
		}
		if results[0] != nil || results[49] != nil || most != 1 || len(done) != 2 || done[1].Time() != begin.Add(49*time.Minute).UTC().Truncate(time.Millisecond) {
			t.Errorf("first %v, last %v, %d at once, done %v", results[0], results[49], most, done)
		}
		// Who goes away while it waits is no longer the latest, and holds up nobody.
		go func() { _, _ = p.Replay(t.Context(), api.ReplayAt{}) }()
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := p.Replay(short, api.ReplayAt{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("went away: %v", err)
		}
		if _, err := p.Replay(t.Context(), api.ReplayAt{}); err != nil || time.Since(begin) != 4*time.Second {
			t.Errorf("after it: %v after %s", err, time.Since(begin))
		}
	})
}

func TestReplayProblems(t *testing.T) {
	var err error
	p := past(&fakeLog{replay: func(context.Context, audit.At) error { return err }})
	for _, c := range []struct {
		err  error
		code api.Code
	}{
		{&store.CompactedError{Source: event.SourceID{Node: "n1", Inc: 1}, Seq: 1, Oldest: event.Cursor{{Node: "n1", Inc: 1}: 5}}, api.CodeCompacted},
		{audit.ErrPosition, api.CodeInvalidRequest},
	} {
		err = c.err
		if _, got := p.Replay(t.Context(), api.ReplayAt{}); !isCode(got, c.code) {
			t.Errorf("%v, want code %s", got, c.code)
		}
	}
}
