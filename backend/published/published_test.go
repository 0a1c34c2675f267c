package published

import (
	"context"
	"encoding/json"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/store"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// memory is a log of one chain.
type memory struct {
	events []event.Event
	read   int // events that were looked at
	looks  int // how often

	mu    sync.Mutex
	grown chan struct{}
}

var source = event.SourceID{Node: "n1", Inc: 1}

func (m *memory) Oldest() event.Cursor { return event.Cursor{} }
func (m *memory) Heads() []event.Head {
	return []event.Head{{Source: source, Seq: uint64(len(m.events))}}
}

func (m *memory) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.grown
}

// grow says that there is more.
func (m *memory) grow() {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.grown)
	m.grown = make(chan struct{})
}

func (m *memory) After(_ context.Context, at event.Cursor, f store.Filter) iter.Seq2[event.Event, error] {
	m.looks++
	return func(yield func(event.Event, error) bool) {
		for _, e := range m.events[at[source]:] {
			m.read++
			if f.Match(e) && !yield(e, nil) {
				return
			}
		}
	}
}

func (m *memory) add(t *testing.T, at time.Time, kind event.Kind, body any) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	m.events = append(m.events, event.Event{Source: source, Seq: uint64(len(m.events) + 1), HLC: cluster.HLC(uint64(at.UnixMilli()) << 16), Kind: kind, Body: text})
}

func TestSummary(t *testing.T) {
	m, served := &memory{}, []string{}
	p := New(Options{Log: m, Served: func() []string { return served }})
	is := func(state string, since time.Duration) {
		t.Helper()
		p.read(t.Context(), noon)
		s := p.Summary()
		at := s.PublishedAt
		if state == api.PublishFailing {
			at = s.FailingSince
		}
		if s.State != state || (at == nil) != (since < 0) || at != nil && !at.Equal(noon.Add(-since)) {
			t.Fatalf("%+v, want %s %s", s, state, since)
		}
	}
	done := func(address string, ago time.Duration) {
		m.add(t, noon.Add(-ago), event.KindPublishDone, event.PublishDone{Address: address, Stored: 8, Asked: 8})
	}
	failed := func(address string, ago time.Duration) {
		m.add(t, noon.Add(-ago), event.KindPublishFailed, event.PublishFailed{Address: address, Stored: 2, Asked: 8, Reason: "too few"})
	}

	done("a", 5*time.Hour)
	is(api.PublishOff, -1)
	served = []string{"a"}
	is(api.PublishUnknown, -1) // what is older than a descriptor lives says nothing
	done("a", 50*time.Minute)
	is(api.PublishOK, 50*time.Minute)
	failed("a", 40*time.Minute)
	failed("a", 30*time.Minute)
	is(api.PublishFailing, 40*time.Minute)
	if s := p.Summary(); s.Stored != 2 || s.Asked != 8 || s.Reason != "too few" || s.PublishedAt == nil || s.NextAt != nil || s.By != "n1" {
		t.Errorf("%+v", s)
	}
	done("a", 20*time.Minute)
	failed("a", 25*time.Minute) // comes late, of another host
	is(api.PublishOK, 20*time.Minute)
	if s := p.Summary(); !s.NextAt.Equal(noon.Add(40 * time.Minute)) {
		t.Errorf("next at %s", s.NextAt)
	}
	// What the publisher has planned counts, unless it is nonsense.
	for i, c := range []struct{ told, want time.Duration }{{53 * time.Minute, 53 * time.Minute}, {-30 * time.Minute, 41 * time.Minute}, {48 * time.Hour, 42 * time.Minute}} {
		m.add(t, noon.Add(time.Duration(i-20)*time.Minute+time.Second), event.KindPublishDone, event.PublishDone{Address: "a", NextAt: noon.Add(c.told).Unix()})
		p.read(t.Context(), noon)
		if s := p.Summary(); s.NextAt.Sub(noon).Round(time.Minute) != c.want {
			t.Errorf("told %s: next at %s, want %s", c.told, s.NextAt.Sub(noon), c.want)
		}
	}
	m.events, p.at, p.known = m.events[:0], nil, map[string]outcome{}
	done("a", 20*time.Minute)

	// Of several the one that is worst off; one that is served no more does not count.
	served = []string{"a", "b"}
	is(api.PublishUnknown, -1)
	done("b", 10*time.Minute)
	is(api.PublishOK, 20*time.Minute)
	failed("b", 5*time.Minute)
	is(api.PublishFailing, 5*time.Minute)
	served = []string{"a"}
	is(api.PublishOK, 20*time.Minute)

	// Nothing is read twice, and nonsense is passed over.
	m.events = append(m.events, event.Event{Source: source, Seq: uint64(len(m.events) + 1), Kind: event.KindPublishDone, Body: []byte("{")})
	is(api.PublishOK, 20*time.Minute)
	before := m.read
	is(api.PublishOK, 20*time.Minute)
	if m.read != before {
		t.Errorf("%d events were read again", m.read-before)
	}
}

// TestRunOnlyWhenTheLogGrows: while nothing happens nothing is read, and what happens is
// seen at once, then every five seconds at most.
func TestRunOnlyWhenTheLogGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{grown: make(chan struct{})}
		p := New(Options{Log: m, Served: func() []string { return []string{"a"} }})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		if m.looks != 1 {
			t.Errorf("%d looks in an hour in which nothing happened", m.looks)
		}
		grow := func() {
			m.grow()
			synctest.Wait()
		}
		m.add(t, time.Now(), event.KindPublishDone, event.PublishDone{Address: "a"})
		grow()
		if s := p.Summary(); s.State != api.PublishOK {
			t.Errorf("%+v", s)
		}
		for range 20 {
			grow()
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if m.looks < 5 || m.looks > 7 {
			t.Errorf("%d looks while the log grew for 20 s", m.looks)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
