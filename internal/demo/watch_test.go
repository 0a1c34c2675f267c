package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
)

// watched is what a watcher has seen of the log.
type watched struct {
	mu   sync.Mutex
	seen map[event.SourceID]uint64 // each source without a gap up to here
	at   api.WatchPosition
	err  error
}

// position is where to go on.
func (w *watched) position() api.WatchPosition {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

// covers reports what of a log was not seen, or not once and in order.
func (w *watched) covers(ends map[event.SourceID]uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for src, seq := range ends {
		if w.seen[src] < seq {
			return fmt.Errorf("seen %d events of %s, the log has %d", w.seen[src], src, seq)
		}
	}
	return w.err
}

// read takes one message in.
func (w *watched) read(m api.WatchMessage) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.at.Note(m); err != nil || m.Event != "log" {
		return err
	}
	var d struct {
		Events []struct {
			Source event.SourceID
			Seq    uint64
		}
	}
	if err := json.Unmarshal(m.Data, &d); err != nil {
		return err
	}
	for _, e := range d.Events {
		if want := w.seen[e.Source] + 1; e.Seq != want && w.err == nil {
			w.err = fmt.Errorf("event %d of %s, want %d", e.Seq, e.Source, want)
		}
		w.seen[e.Source] = e.Seq
	}
	return nil
}

// TestWatchGoesOnElsewhere watches at one host, which is killed, and goes on at
// another: that takes less than a second, and no event of the log is missed or comes
// twice.
func TestWatchGoesOnElsewhere(t *testing.T) {
	d, ctx := startWith(t, 3, calm)
	holder, err := d.holder(ctx)
	if err != nil {
		t.Fatal(err)
	}
	first := d.other(holder)
	spec, err := d.upload(ctx, filepath.Join(bin, "examples", "pi.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	spec.Iterations, spec.Chunk = 2000, 100
	w := &watched{seen: map[event.SourceID]uint64{}}
	q := api.WatchQuery{Topics: []string{"events", "members", "jobs"}, Events: api.EventQuery{After: api.Cursor{}}}
	work := func(key string) {
		t.Helper()
		spec.Key = key
		finish(ctx, t, holder, submit(ctx, t, holder, spec).Job)
	}
	work("before")
	broken := errors.New("the stream broke")
	once := api.FollowOptions{Retry: func(cause error) error { return fmt.Errorf("%w: %w", broken, cause) }}
	synced := make(chan struct{}, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- first.api.Watch(ctx, q, once, func(m api.WatchMessage) error {
			if m.Event == "synced" {
				synced <- struct{}{}
			}
			return w.read(m)
		})
	}()
	select {
	case <-synced:
	case err := <-ended:
		t.Fatal(err)
	}
	work("while it watches")
	spec.Key = "when it dies"
	sub := submit(ctx, t, holder, spec)
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-first.done
	if err := <-ended; !errors.Is(err, broken) {
		t.Fatalf("the watch at %s ended: %v", first.name, err)
	}
	began := time.Now()
	q.At = w.position()
	resumed := make(chan time.Duration, 1)
	why := ""
	go func() {
		ended <- holder.api.Watch(ctx, q, once, func(m api.WatchMessage) error {
			switch m.Event {
			case "reset":
				why = string(m.Data)
			case "synced":
				resumed <- time.Since(began)
			}
			return w.read(m)
		})
	}()
	select {
	case took := <-resumed:
		t.Logf("went on at %s after %v", holder.name, took)
		if took > time.Second || why != `{"reason":"restart"}` {
			t.Errorf("went on after %v, reset %s", took, why)
		}
	case err := <-ended:
		t.Fatal(err)
	}
	finish(ctx, t, holder, sub.Job)
	work("afterwards")
	ends, n := endsOf(t, holder)
	eventually(ctx, t, 10*time.Second, "the watcher has seen the log", func() error { return w.covers(ends) })
	t.Logf("%d events, each once", n)
	seesLinks(ctx, t, d, holder, first.name)
}

// endsOf reads a host's log and returns where each source ends.
func endsOf(t *testing.T, h *host) (ends map[event.SourceID]uint64, n int) {
	t.Helper()
	ends = map[event.SourceID]uint64{}
	err := h.api.Events(t.Context(), api.EventQuery{}, api.FollowOptions{}, func(e api.Event) error {
		if e.Seq != ends[e.Source]+1 {
			t.Errorf("the log has event %d of %s after %d", e.Seq, e.Source, ends[e.Source])
		}
		ends[e.Source] = e.Seq
		n++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ends, n
}

// seesLinks watches the half-edges at a host: those of hosts that live are alive and
// direct once they have told them, those of one that was killed unknown.
func seesLinks(ctx context.Context, t *testing.T, d *demo, at *host, killed string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	rows := map[string]api.Link{}
	err := at.api.Watch(ctx, api.WatchQuery{Topics: []string{"links"}}, api.FollowOptions{}, func(m api.WatchMessage) error {
		var x struct{ Rows, Set []api.Link }
		if m.Event != "snapshot" && m.Event != "delta" {
			return nil
		}
		if err := json.Unmarshal(m.Data, &x); err != nil {
			return err
		}
		well := 0
		for _, l := range append(x.Rows, x.Set...) {
			rows[string(l.From)+">"+string(l.To)] = l
		}
		for _, l := range rows {
			switch {
			case string(l.From) == killed && l.State != "unknown":
				return fmt.Errorf("a host that is dead reports %+v", l)
			case string(l.From) != killed && string(l.To) != killed && l.State == "alive" && l.Path == "direct":
				well++
			}
		}
		if n := len(d.hosts); well < (n-1)*(n-2) {
			return nil
		}
		return api.ErrStop
	})
	if err != nil {
		t.Errorf("half-edges %v: %v", rows, err)
	}
}
