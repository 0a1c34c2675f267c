package status

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

func TestWatchJob(t *testing.T) {
	f := newFake()
	r := start(t, f, nil)
	var states []job.State
	last, err := r.client.FollowJob(t.Context(), "jaa", api.FollowOptions{}, func(j api.Job) error {
		states = append(states, j.State)
		if j.APIVersion != "1" || j.Failures == nil {
			t.Errorf("incomplete %+v", j)
		}
		if len(states) == 1 {
			f.update(func() { f.job.State = job.Completed })
		}
		return nil
	})
	if err != nil || last.State != job.Completed || states[0] != job.Running {
		t.Fatalf("%v %v %v", last.State, states, err)
	}
}

func TestEvents(t *testing.T) {
	f := newFake()
	base := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for i := range 1200 {
		kind := event.KindHostStarted
		if i%2 == 1 {
			kind = event.KindTermStart
		}
		f.log = append(f.log, testEvent(uint64(i+1), kind, base.Add(time.Duration(i)*time.Second)))
	}
	r := start(t, f, nil)
	read := func(q api.EventQuery) (n int, last uint64) {
		err := r.client.Events(t.Context(), q, api.FollowOptions{}, func(e api.Event) error {
			if e.Seq <= last {
				t.Errorf("event %d after %d", e.Seq, last)
			}
			n, last = n+1, e.Seq
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		return n, last
	}
	if n, last := read(api.EventQuery{}); n != 1200 || last != 1200 {
		t.Errorf("all: %d up to %d", n, last)
	}
	if n, _ := read(api.EventQuery{Kind: "term_*"}); n != 600 {
		t.Errorf("by kind: %d", n)
	}
	if n, _ := read(api.EventQuery{Node: "n2"}); n != 0 {
		t.Errorf("by node: %d", n)
	}
	if n, _ := read(api.EventQuery{Since: base.Add(1000 * time.Second)}); n != 200 {
		t.Errorf("since: %d", n)
	}
	if n, _ := read(api.EventQuery{After: api.Cursor{{Node: "n1", Inc: 1}: 1195}}); n != 5 {
		t.Errorf("after: %d", n)
	}
}

// TestEventsSurviveRestart follows across two daemons and misses nothing.
func TestEventsSurviveRestart(t *testing.T) {
	f := newFake()
	base := time.Unix(1_700_000_000, 0)
	f.log = append(f.log, testEvent(1, "host_started", base))
	r := start(t, f, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	retries := 0
	var got []uint64
	next := make(chan error, 1)
	err := r.client.Events(ctx, api.EventQuery{Follow: true}, api.FollowOptions{Retry: func(error) error { retries++; return nil }}, func(e api.Event) error {
		got = append(got, e.Seq)
		switch e.Seq {
		case 1:
			f.update(func() { f.log = append(f.log, testEvent(2, "term_start", base)) })
		case 2:
			go func() { // the daemon restarts, then something happens
				if err := r.stop(); err != nil {
					next <- err
					return
				}
				s := newServer(t, Options{Socket: r.socket, Backend: f})
				go func() { next <- s.Run(ctx) }()
				<-s.Up()
				f.update(func() { f.log = append(f.log, testEvent(3, "term_start", base)) })
			}()
		case 3:
			return api.ErrStop
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if retries == 0 || len(got) != 3 {
		t.Errorf("events %v after %d retries", got, retries)
	}
	for i, seq := range got {
		if seq != uint64(i+1) {
			t.Fatalf("events %v", got)
		}
	}
	cancel()
	if err := <-next; err != nil {
		t.Error(err)
	}
}

func TestFollowersAreBounded(t *testing.T) {
	f := newFake()
	r := start(t, f, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	following := make(chan struct{}, 2)
	ended := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := r.client.FollowJob(ctx, "jaa", api.FollowOptions{}, func(api.Job) error {
				select {
				case following <- struct{}{}:
				default:
				}
				return nil
			})
			ended <- err
		}()
	}
	// Each follower gets snapshots; the third is refused once both are in.
	<-following
	refused := errors.New("refused")
	var cause error
	for !api.IsCode(cause, api.CodeOverloaded) {
		_, err := r.client.FollowJob(ctx, "jaa", api.FollowOptions{Retry: func(err error) error { cause = err; return refused }}, func(api.Job) error { return api.ErrStop })
		if err != nil && !errors.Is(err, refused) {
			t.Fatal(err)
		}
	}
	cancel()
	for range 2 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// TestStopEndsFollowers tells followers at once that they may come back.
func TestStopEndsFollowers(t *testing.T) {
	r := start(t, newFake(), nil)
	stop := errors.New("told")
	began := time.Now()
	_, err := r.client.FollowJob(t.Context(), "jaa", api.FollowOptions{Retry: func(cause error) error {
		if !api.IsCode(cause, api.CodeNotReady) {
			t.Errorf("ended by %v", cause)
		}
		return stop
	}}, func(api.Job) error {
		go func() {
			if err := r.stop(); err != nil {
				t.Error(err)
			}
		}()
		return nil
	})
	if !errors.Is(err, stop) || time.Since(began) > 10*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}
