package backend

import (
	"context"
	"encoding/json"
	"iter"
	"testing"
	"time"

	"github.com/skein-project/skein/backend/published"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/eventlog/store"
)

// publishLog has what a publisher wrote, and nothing else.
type publishLog struct{ events []event.Event }

func (l *publishLog) Oldest() event.Cursor     { return event.Cursor{} }
func (l *publishLog) Heads() []event.Head      { return nil }
func (l *publishLog) Changed() <-chan struct{} { return nil }
func (l *publishLog) After(context.Context, event.Cursor, store.Filter) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for _, e := range l.events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// TestLine: the line for the service manager ends with what `skein status` says of the
// publishing.
func TestLine(t *testing.T) {
	log, served := &publishLog{}, []string(nil)
	p := published.New(published.Options{Log: log, Served: func() []string { return served }})
	v := &coord.View{Self: "n1", Members: []coord.MemberView{
		{Member: cluster.Member{Node: "n1"}, Health: cluster.Alive}, {Member: cluster.Member{Node: "n2"}, Health: cluster.Suspect},
	}}
	v.Lease.Role, v.Lease.Term, v.Lease.Holder = cluster.RoleStandby, 42, "n2"
	h := &hostStatus{view: func() *coord.View { return v }, published: p}
	wrote := func(ago time.Duration, kind event.Kind, body any) {
		t.Helper()
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-ago)
		log.events = append(log.events, event.Event{
			Source: event.SourceID{Node: "n1", Inc: 1}, HLC: cluster.HLC(uint64(at.UnixMilli()) << 16), Kind: kind, Body: text,
		})
	}
	is := func(publish string) {
		t.Helper()
		ended, end := context.WithCancel(t.Context())
		end()
		if err := p.Run(ended); err != nil { // one look, and no more
			t.Fatal(err)
		}
		if line, want := h.Line(), "standby, term 42, holder n2, 1/2 alive, publish "+publish; line != want {
			t.Errorf("%q, want %q", line, want)
		}
	}
	is("off")
	served = []string{"a.onion"}
	is("unknown")
	// Half a minute is left before another minute would be told.
	wrote(12*time.Minute+30*time.Second, event.KindPublishDone, event.PublishDone{Address: "a.onion"})
	is("ok 12m ago by n1, next in 47m")
	wrote(5*time.Minute+30*time.Second, event.KindPublishFailed, event.PublishFailed{Address: "a.onion", Stored: 2, Asked: 8})
	is("failing 5m: 2 of 8 directories, last 12m ago by n1")
}
