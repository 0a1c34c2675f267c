package redis

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/gateway/desk"
	"github.com/skein-project/skein/internal/crewtest"
	"github.com/skein-project/skein/internal/servertest"
	"github.com/skein-project/skein/scheduler/stream"
)

// until tries until ok says nothing.
func until(t *testing.T, what string, ok func() error) {
	t.Helper()
	for end := time.Now().Add(90 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := ok()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// TestSentinel: a master that dies before its replica has all of it, and one that is asked to
// step down: gateways and holder find the other, and what was lost the workers bring again and
// the holder gives out again.
func TestSentinel(t *testing.T) {
	ports := []string{portOf(freeAddress(t)), portOf(freeAddress(t)), portOf(freeAddress(t))}
	first := own(t, "--port", ports[0], "--bind", "127.0.0.1")
	second := own(t, "--port", ports[1], "--bind", "127.0.0.1", "--replicaof", "127.0.0.1 "+ports[0])
	// info waits for a line of INFO; a server that changes its role cuts connections.
	info := func(r *servertest.Redis, line string) func() error {
		return func() error {
			client, err := Server{Addresses: []string{"unix://" + r.Socket}}.dial()
			if err != nil {
				return err
			}
			defer client.Close()
			text, err := client.Do(t.Context(), client.B().Info().Build()).ToString()
			if err == nil && !strings.Contains(text, line) {
				err = fmt.Errorf("no %q", line)
			}
			return err
		}
	}
	until(t, "the replica follows", info(second, "master_link_status:up"))
	base, err := os.MkdirTemp("", "rd") //nolint:usetesting // short enough for a socket's address
	if err != nil {
		t.Fatal(err)
	}
	sentinel, err := servertest.StartSentinel(t.Context(), base, ports[2], ports[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sentinel.Stop(); _ = os.RemoveAll(base) })
	until(t, "the Sentinel knows both", info(sentinel, "status=ok,address=127.0.0.1:"+ports[0]+",slaves=1"))

	at := Server{Addresses: []string{"127.0.0.1:" + ports[2]}, Sentinel: "main", Prefix: "sk"}
	c := crewOf(t, first, "sk", func(o *Options) { o.Server = at })
	h := c.Hold(t, "n3", 7).Welcomed()
	hold := func(term cluster.Term) (next *crewtest.Holder) {
		t.Helper()
		until(t, "a holder is served", func() error {
			next = c.Hold(t, "n3", term)
			if f := next.Hear(); f.Welcome == nil {
				return fmt.Errorf("%+v", f.Refused)
			}
			return nil
		})
		return next
	}
	const of job.ID = "jaaaaaaaaaaaaaaaaaaaaaaaaaa"
	chunk := func(n int) job.Attempt { return job.Attempt{Job: of, Chunk: n, Number: 1} }
	guards := []*Store{c.Doors[0].(*Store), c.Doors[1].(*Store)}
	if err := guards[0].First(); err != nil {
		t.Fatal(err)
	}
	a, _, err := c.Doors[0].Attach(crewtest.Attaching(1))
	if err != nil {
		t.Fatal(err)
	}
	h.Give(crewtest.ID(1), of, 1, 1, 2)
	if p := c.Await(t, crewtest.ID(1)); p.Kind != desk.PushChunks {
		t.Fatalf("%+v", p)
	}
	until(t, "the replica has it", func() error {
		if n := asker(t, first)("WAIT", "1", "1000"); n != "1" {
			return errors.New(n)
		}
		return nil
	})

	// What comes now the replica never hears of.
	if err := second.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	asker(t, first)("CLIENT", "KILL", "TYPE", "replica")
	if said, err := a.Complete([]stream.Result{crewtest.Result(chunk(1))}); err != nil || said[0] != desk.Taken {
		t.Fatalf("%v, %v", said, err)
	}
	b, _, err := c.Doors[1].Attach(crewtest.Attaching(2))
	if err != nil {
		t.Fatal(err)
	}
	h.Give(crewtest.ID(1), of, 2, 3)
	if p := c.Await(t, crewtest.ID(1)); p.Kind != desk.PushChunks {
		t.Fatalf("%+v", p)
	}
	now := time.Now()
	if err := guards[1].Use(nonceAt("a", now), now); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(first.Signal(syscall.SIGKILL), second.Signal(syscall.SIGCONT)); err != nil {
		t.Fatal(err)
	}
	h.Refused() // its stream ends
	h = hold(8)
	until(t, "the second is the master", info(second, "role:master"))
	f := h.Hear()
	if f.Join == nil || f.Worker != crewtest.ID(1) || len(f.Join.Assigned) != 2 {
		t.Fatalf("%+v, want worker 1 with what the replica knew", f)
	}
	until(t, "a gateway finds the other", func() error { _, err := a.Assigned(); return err })
	until(t, "so does the other gateway", func() error {
		if _, err := b.Beat(desk.Beat{}); !errors.Is(err, desk.ErrUnknown) {
			return fmt.Errorf("a worker that was lost: %w", errors.Join(err))
		}
		return nil
	})
	if said, err := a.Complete([]stream.Result{crewtest.Result(chunk(1))}); err != nil || said[0] != desk.Taken {
		t.Fatalf("a result that was lost, again: %v, %v", said, err)
	}
	if f := h.Hear(); f.Result == nil || f.Result.Attempt != chunk(1) {
		t.Fatalf("%+v", f)
	}
	if _, _, err := c.Doors[1].Attach(crewtest.Attaching(2)); err != nil {
		t.Fatal(err)
	}
	if f := h.Hear(); f.Join == nil || f.Worker != crewtest.ID(2) {
		t.Fatalf("%+v", f)
	}
	h.Give(crewtest.ID(1), of, 3, 3)
	if p := c.Await(t, crewtest.ID(1)); p.Kind != desk.PushChunks || p.Chunks.Refs[0] != chunk(3) {
		t.Fatalf("what was lost, given again: %+v", p)
	}
	now = time.Now()
	if _, early := errors.AsType[*access.EarlyError](guards[0].Use(nonceAt("a", now), now)); !early {
		t.Error("nobody minds that it is not known any more what was used")
	}

	// The first is there again, as a replica, and is to be the master.
	if err := first.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "the first follows", info(first, "master_link_status:up"))
	until(t, "the Sentinel lets it", func() error {
		client, err := Server{Addresses: []string{"unix://" + sentinel.Socket}}.dial()
		if err != nil {
			return err
		}
		defer client.Close()
		return client.Do(t.Context(), client.B().Arbitrary("SENTINEL", "FAILOVER", "main").Build()).Error()
	})
	until(t, "the first is the master", info(first, "role:master"))
	h.Refused()
	h = hold(9)
	joins, results := 0, 0
	for range 3 {
		switch f := h.Hear(); {
		case f.Join != nil:
			joins++
		case f.Result != nil:
			results++
		}
	}
	if joins != 2 || results != 1 {
		t.Errorf("the holder hears of %d workers and %d results", joins, results)
	}
	until(t, "a gateway is back", func() error { _, err := a.Assigned(); return err })
	h.Give(crewtest.ID(1), of, 1, 4)
	if p := c.Await(t, crewtest.ID(1)); p.Kind != desk.PushChunks || p.Chunks.Refs[0] != chunk(4) {
		t.Fatalf("%+v", p)
	}
}
