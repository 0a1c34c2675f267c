package journal

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog"
)

// TestJournal appends nothing before the chain is open, then in order; it
// tries again what fails, and drops what a full disk refuses for good.
func TestJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []event.Kind
		fail := 2
		j := New(Options{
			First: func(context.Context) error { got = append(got, "first"); return nil },
			Append: func(_ context.Context, drafts []event.Draft) ([]event.Event, error) {
				switch {
				case drafts[0].Kind == event.KindMemberRenewed:
					return nil, eventlog.ErrDiskFull
				case fail > 0:
					fail--
					return nil, errors.New("told to fail")
				}
				for _, d := range drafts {
					got = append(got, d.Kind)
				}
				return make([]event.Event, len(drafts)), nil
			},
			Logger: zerolog.Nop(),
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- j.Run(ctx) }()
		j.Note(event.KindMemberJoined, event.MemberJoined{})
		j.Note(event.KindMemberRenewed, event.MemberRenewed{})
		j.NoteAll(slices.Repeat([]event.Draft{{Kind: event.KindMemberHealth}}, batchSize+1))
		synctest.Wait()
		if len(got) > 0 {
			t.Fatalf("appended %v to a chain that may have lost its end", got)
		}
		j.Open()
		j.Open()
		time.Sleep(time.Second)
		synctest.Wait()
		if len(got) != batchSize+3 || got[0] != "first" || got[1] != event.KindMemberJoined || got[2] != event.KindMemberHealth {
			t.Errorf("%d events, %v", len(got), got[:min(len(got), 4)])
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// fakeLog is an event log whose chain turns out to be longer elsewhere.
type fakeLog struct {
	mu       sync.Mutex
	inc      uint64
	answered int
	appended []event.Kind
}

// with runs f while nobody else looks.
func (l *fakeLog) with(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

func (l *fakeLog) Source() (id event.SourceID) {
	l.with(func() { id = event.SourceID{Node: "n1", Inc: l.inc} })
	return id
}

func (l *fakeLog) CheckOwnHead(_ context.Context, peers []cluster.NodeID) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return min(l.answered, len(peers)), nil
}

func (l *fakeLog) Append(_ context.Context, drafts []event.Draft) ([]event.Event, error) {
	l.with(func() { l.appended = append(l.appended, drafts[0].Kind) })
	return make([]event.Event, len(drafts)), nil
}

// TestChain waits for a majority before it writes, and tells the lease when the
// chain goes on under another incarnation.
func TestChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fakeLog{inc: 1}
		var opened, lost atomic.Int64
		c := NewChain(ChainOptions{
			Self: "n1", Log: log,
			Voters: func() cluster.VoterConfig {
				return cluster.VoterConfig{Epoch: 1, Voters: []cluster.NodeID{"n1", "n2", "n3"}, Mode: cluster.ModeQuorum}
			},
			VoteLost: func(string) { lost.Add(1) },
			First:    func() ([]event.Draft, error) { return []event.Draft{{Kind: event.KindHostStarted}}, nil },
			Open:     func() { opened.Add(1) },
			Logger:   zerolog.Nop(),
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		time.Sleep(time.Minute)
		log.with(func() {
			if opened.Load() > 0 || len(log.appended) > 0 {
				t.Fatal("wrote without a majority")
			}
			log.answered = 1
		})
		time.Sleep(time.Second)
		log.with(func() {
			if opened.Load() != 1 || !slices.Equal(log.appended, []event.Kind{event.KindHostStarted}) || lost.Load() != 0 {
				t.Fatalf("opened %d times, appended %v, lost %d", opened.Load(), log.appended, lost.Load())
			}
			log.inc = 2
		})
		time.Sleep(3 * time.Second)
		if lost.Load() != 1 {
			t.Errorf("%d reports of the lost chain", lost.Load())
		}
		cancel()
		<-ended //nolint:errcheck // it was cancelled
	})
}

// TestChainWaitsForTheClock writes nothing before it may, then all first events,
// and ends with what the watch finds.
func TestChainWaitsForTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fakeLog{inc: 1}
		var opened atomic.Bool
		var why, fault atomic.Pointer[string]
		why.Store(new("its clock is ahead"))
		c := NewChain(ChainOptions{
			Self: "n1", Log: log,
			Voters: func() cluster.VoterConfig {
				return cluster.VoterConfig{Epoch: 1, Voters: []cluster.NodeID{"n1"}, Mode: cluster.ModeSingle}
			},
			MayWrite: func() string { return *why.Load() },
			Watch: func(context.Context) error {
				if f := fault.Load(); f != nil {
					return errors.New(*f)
				}
				return nil
			},
			First: func() ([]event.Draft, error) {
				return slices.Repeat([]event.Draft{{Kind: event.KindPublishing}}, batchSize+1), nil
			},
			Open:   func() { opened.Store(true) },
			Logger: zerolog.Nop(),
		})
		ended := make(chan error, 1)
		go func() { ended <- c.Run(t.Context()) }()
		time.Sleep(time.Hour)
		log.with(func() {
			if opened.Load() || len(log.appended) > 0 {
				t.Fatal("wrote though it must not")
			}
		})
		why.Store(new(""))
		time.Sleep(time.Second)
		log.with(func() {
			if !opened.Load() || len(log.appended) != 2 {
				t.Fatalf("opened %t, %d appends", opened.Load(), len(log.appended))
			}
		})
		fault.Store(new("the chain runs ahead"))
		if err := <-ended; err == nil || err.Error() != "the chain runs ahead" {
			t.Errorf("ended with %v", err)
		}
	})
}
