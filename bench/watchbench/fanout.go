package watchbench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/realtime/delta"
)

// peer is how the other one is set.
const peer = "gorilla/websocket: a goroutine and a queue for each connection, prepared messages, a deadline for each write"

// fan is a server with many readers.
type fan struct {
	name    string
	readers *readers
	publish func(events []event.Event)
	close   func() error
}

// shape is what is sent to every reader at once.
type shape struct {
	name   string
	events int
	begins start
	unit   string
	amount func(bytes int) float64 // of one round, to each reader
}

// start is when a round begins.
type start int

const (
	whenThere start = iota // what is to be sent is there
	whenFirst              // a reader has the first of it
)

// FanOut sends the log to watchers: a burst of some megabytes, and a single event. A
// round lasts until the last of all readers has it: for a burst since it was there to
// be sent, for one event since the first reader had it, because a daemon looks at its
// log some times a second only.
func FanOut(ctx context.Context, s *suite.Suite) (err error) {
	n := s.Size.Watchers
	ours, err := newWatch(ctx, filepath.Join(s.Dir, "watch", "s"), n)
	if err != nil {
		return fmt.Errorf("watchers: %w", err)
	}
	defer func() { err = errors.Join(err, ours.close()) }()
	theirs, err := newHub(ctx, n)
	if err != nil {
		return fmt.Errorf("gorilla/websocket: %w", err)
	}
	defer func() { err = errors.Join(err, theirs.close()) }()
	l := &writer{src: event.SourceID{Node: "n1", Inc: 1}}
	for _, sh := range []shape{
		{fmt.Sprintf("a burst of events to %d watchers", n), 4500, whenThere, "MB/s", func(bytes int) float64 { return float64(bytes) / 1e6 }},
		{fmt.Sprintf("one event to %d watchers", n), 1, whenFirst, "readers/s", func(int) float64 { return 1 }},
	} {
		row := suite.Series{Name: sh.name, Unit: sh.unit, With: peer, Target: suite.Want("ratio", ">=", 0.8), Digest: suite.Median}
		for i := range 3*s.Size.Rounds + 1 {
			events, marker := l.write(sh.events)
			bytes := 0
			for _, f := range frames(events) {
				bytes += len(f)
			}
			total := sh.amount(bytes) * float64(n)
			var a, b float64
			measure := func(f *fan, into *float64) func() error {
				return func() error {
					took, err := f.round(ctx, events, marker, sh.begins)
					if err != nil {
						return fmt.Errorf("%s: %w", f.name, err)
					}
					*into = total / took.Seconds()
					return nil
				}
			}
			if err := suite.InTurn(i, measure(ours, &a), measure(theirs, &b)); err != nil {
				return err
			}
			if i > 0 { // the first one warms up
				row.Ours, row.Peer = append(row.Ours, a), append(row.Peer, b)
			}
		}
		s.Progress("%s: %.0f and %.0f %s, %.2f of gorilla/websocket", sh.name, suite.Median(row.Ours), suite.Median(row.Peer), sh.unit,
			suite.Median(row.Ours)/suite.Median(row.Peer))
		s.Add(row)
	}
	return nil
}

// round sends events and returns how long it took all readers to get them.
func (f *fan) round(ctx context.Context, events []event.Event, marker string, begins start) (time.Duration, error) {
	f.readers.expect(marker)
	f.publish(events)
	first, last, err := f.readers.wait(ctx)
	if begins == whenFirst {
		last -= first
	}
	return last, err
}

// writer makes events.
type writer struct {
	src   event.SourceID
	seq   uint64
	burst int
}

// write returns n events, and a text that stands in the last one only.
func (w *writer) write(n int) (list []event.Event, marker string) {
	w.burst++
	marker = fmt.Sprintf("end-of-burst-%06d", w.burst)
	for i := range n {
		w.seq++
		text := strings.Repeat("x", 60)
		if i == n-1 {
			text = marker
		}
		list = append(list, event.Event{
			Source: w.src, Seq: w.seq, HLC: cluster.HLC(w.seq), Term: 3, Kind: event.KindHostStarted, Body: fmt.Appendf(nil, `{"version":%q}`, text),
		})
	}
	return list, marker
}

// frames are the data that both send.
func frames(events []event.Event) (out [][]byte) {
	size := 0
	from := 0
	for i, e := range events {
		size += len(e.Body) + 300
		if i+1-from < delta.LogEvents && size < delta.LogBytes && i+1 < len(events) {
			continue
		}
		f, err := delta.NewLog("events", events[from:i+1], event.Cursor{e.Source: e.Seq})
		if err != nil { // made here
			panic("watchbench: " + err.Error())
		}
		out, from, size = append(out, f.Data), i+1, 0
	}
	return out
}
