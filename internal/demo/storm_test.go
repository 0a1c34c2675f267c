package demo

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// dial asks a host by a connection of its own; the answer's body ends with it.
func (h *host) dial(ctx context.Context, path string) (*http.Response, net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", filepath.Join(h.dir, "sock"))
	if err != nil {
		return nil, nil, err
	}
	if end, ok := ctx.Deadline(); ok {
		err = conn.SetDeadline(end)
	}
	var resp *http.Response
	if err == nil {
		_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: skein\r\nConnection: close\r\n\r\n", path)
	}
	if err == nil {
		resp, err = http.ReadResponse(bufio.NewReader(conn), nil)
	}
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return resp, conn, nil
}

// refused reports whether an answer says when to come again; anything but that and a
// stream is an error.
func refused(resp *http.Response) (bool, error) {
	if resp.StatusCode == http.StatusOK {
		return false, nil
	}
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
		return false, fmt.Errorf("%s, Retry-After %q", resp.Status, resp.Header.Get("Retry-After"))
	}
	return true, nil
}

// TestManyFollowers has 200 follow the log of the holder, one of them at a byte a
// second, while others come and go without pause and a job writes events: those who
// find no place are told when to come again, the slow one is cut, those who were let in
// get what happens, and the holder holds: its heartbeats come in time, its term goes on.
// SKEIN_PROVE=1 has the storm last 40 s at least, where hosts judge each other by seconds.
func TestManyFollowers(t *testing.T) {
	const followers, places = 200, 128
	storming, profile := 8, cluster.ProfileClassic // whose lease nothing moves that else this machine does
	if proving() {
		storming, profile = 30, cluster.ProfileLAN
	}
	d, ctx := startWith(t, 3, func(d *demo) { d.o.Profile = profile })
	holder, err := d.holder(ctx)
	if err != nil {
		t.Fatal(err)
	}
	before, err := holder.api.Lease(ctx)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := d.upload(ctx, filepath.Join(bin, "examples", "pi.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	// A log that is longer than what lies in sockets unread.
	text := func(path string) []byte {
		t.Helper()
		resp, conn, err := holder.dial(ctx, path)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		all, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	for i := 0; len(text("/v1/events")) < 300_000; i++ {
		spec.Key, spec.Iterations, spec.Chunk = fmt.Sprintf("history %d", i), 400, 1
		finish(ctx, t, holder, submit(ctx, t, holder, spec).Job)
	}
	slow, conn, err := holder.dial(ctx, "/v1/events?follow=true")
	if err != nil || slow.StatusCode != http.StatusOK {
		t.Fatalf("the slow one: %+v, %v", slow, err)
	}
	defer conn.Close()
	var all sync.WaitGroup
	defer all.Wait()
	storm, calmed := context.WithCancel(ctx)
	defer calmed()
	all.Go(func() { // a byte a second
		for storm.Err() == nil {
			if _, err := io.ReadFull(slow.Body, make([]byte, 1)); err != nil {
				return
			}
			select {
			case <-storm.Done():
			case <-time.After(time.Second):
			}
		}
	})

	// Followers: each that is let in waits for the mark.
	const mark = "the mark of the storm"
	var let, turned, told atomic.Int64
	var reading sync.WaitGroup
	for range followers {
		resp, c, err := holder.dial(ctx, "/v1/events?follow=true&tail=1")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		no, err := refused(resp)
		if err != nil {
			t.Fatal(err)
		}
		if no {
			turned.Add(1)
			continue
		}
		let.Add(1)
		reading.Go(func() {
			lines := bufio.NewReader(resp.Body)
			for {
				line, err := lines.ReadString('\n')
				if err != nil {
					return
				}
				if regexp.MustCompile(mark).MatchString(line) {
					told.Add(1)
					return
				}
			}
		})
	}
	if let.Load() != places-1 || turned.Load() != followers-places+1 {
		t.Errorf("of %d followers and a slow one %d were let in, %d told to come again: %d have a place", followers, let.Load(), turned.Load(), places)
	}

	// The storm: watches that begin, and end with their first bytes.
	var came, again atomic.Int64
	for range storming {
		all.Go(func() {
			for storm.Err() == nil {
				resp, c, err := holder.dial(storm, "/v1/watch")
				if err != nil {
					if storm.Err() == nil {
						t.Errorf("in the storm: %v", err)
					}
					return
				}
				no, err := refused(resp)
				if err != nil {
					t.Errorf("in the storm: %v", err)
				}
				if no {
					again.Add(1)
				} else if _, err := resp.Body.Read(make([]byte, 1)); err == nil {
					came.Add(1)
				}
				_ = c.Close()
				select {
				case <-storm.Done():
				case <-time.After(20 * time.Millisecond):
				}
			}
		})
	}
	spec.Key, spec.Iterations, spec.Chunk = "meanwhile", 2_000, 2
	work := submit(ctx, t, holder, spec).Job

	// What another host hears of the holder, until the slow one is cut.
	other, worst, looks := d.other(holder), 0.0, 0
	least := time.Now().Add(5 * time.Second)
	if proving() {
		least = time.Now().Add(40 * time.Second)
	}
	cut := regexp.MustCompile(`skein_api_followers_cut_total\{reason="slow"\} 1\b`)
	until(ctx, t, "the slow follower to be cut", func() bool {
		list, err := other.api.Members(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list.Members {
			if m.Node != cluster.NodeID(holder.name) {
				continue
			}
			if m.SeenSeconds != nil {
				worst = max(worst, *m.SeenSeconds)
			}
			if looks++; m.State != cluster.Alive {
				t.Errorf("%s is %s to %s", holder.name, m.State, other.name)
			}
		}
		return cut.Match(text("/metrics")) && time.Now().After(least)
	})
	calmed()
	all.Wait()

	finish(ctx, t, holder, work)
	spec.Key, spec.Name, spec.Iterations, spec.Chunk = mark, mark, 10, 10
	submit(ctx, t, holder, spec)
	until(ctx, t, "all followers to have the mark", func() bool { return told.Load() == let.Load() })
	reading.Wait()

	after, err := holder.api.Lease(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if after.Holder != before.Holder || after.Term != before.Term {
		t.Errorf("%s held term %d, now %s holds term %d", before.Holder, before.Term, after.Holder, after.Term)
	}
	err = other.api.Events(ctx, api.EventQuery{Kind: string(event.KindMemberHealth)}, api.FollowOptions{}, func(e api.Event) error {
		if e.Body != nil && regexp.MustCompile(`"to":"(suspect|dead)"`).Match(e.Body) {
			t.Errorf("in the log: %s", e.Body)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if came.Load() == 0 || looks == 0 {
		t.Errorf("%d watches began, %d looks at the holder", came.Load(), looks)
	}
	t.Logf("%d followers let in, %d told to come again; %d watches came and went, %d refused; the holder was last heard %.2f s ago at most, in %d looks", let.Load(), turned.Load(), came.Load(), again.Load(), worst, looks)
}
