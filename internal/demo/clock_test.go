package demo

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/daemon"
	"github.com/skein-project/skein/eventlog"
)

// operator runs a command as an operator does, and writes down what it says.
func (d *demo) operator(ctx context.Context, t *testing.T, h *host, args ...string) (out string, code int) {
	t.Helper()
	out, errs, code := d.cli(ctx, h, args...)
	t.Logf("%s$ skein %s\n%s%s[exit %d]", h.name, strings.Join(args, " "), out, errs, code)
	return out + errs, code
}

// headOf is how far a host holds a chain.
func headOf(ctx context.Context, t *testing.T, d *demo, h *host, chain string) (seq string) {
	t.Helper()
	out, errs, code := d.cli(ctx, h, "log", "heads", "--state-dir", h.stateDir(), "-o", "tsv")
	if code != 0 {
		t.Fatalf("log heads: exit %d\n%s%s", code, out, errs)
	}
	for line := range strings.Lines(out) {
		if f := strings.Split(line, "\t"); len(f) > 2 && f[0]+"/"+f[1] == chain {
			return f[2]
		}
	}
	return "0"
}

// serves has a job computed by the hosts that live.
func serves(ctx context.Context, t *testing.T, d *demo, h *host, key string) {
	t.Helper()
	spec, err := d.upload(ctx, filepath.Join(bin, "examples", "pi.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	spec.Key, spec.Iterations, spec.Chunk = key, 20_000, 1000
	eventually(ctx, t, time.Minute, "a job is accepted", func() error {
		sub, err := h.api.Submit(ctx, api.SubmitRequest{Spec: spec})
		if err == nil {
			finish(ctx, t, h, sub.Job)
		}
		return err
	})
}

// allEqual waits until all logs are good and equal.
func allEqual(ctx context.Context, t *testing.T, d *demo) {
	t.Helper()
	eventually(ctx, t, time.Minute, "all logs are equal", func() error {
		if out, errs, code := d.cli(ctx, d.hosts[1], "log", "verify", "--all-hosts"); code != 0 {
			return fmt.Errorf("exit %d: %s%s", code, out, errs)
		}
		return nil
	})
}

// TestStartWithTheClockAhead starts n3 two hours ahead and sets its clock right
// after a while, as a host does that has no battery clock. It writes nothing
// before that and says why; afterwards it is a host like any other, also when the
// holder dies.
func TestStartWithTheClockAhead(t *testing.T) {
	parallel(t)
	d, ctx := startWith(t, 3, calm)
	n3 := d.hosts[2]
	handOver(ctx, t, n3, "n1", "n3 will be stopped")
	halt(t, n3)
	before := headOf(ctx, t, d, n3, "n3/1")
	var off atomic.Int64
	off.Store(int64(2 * time.Hour))
	inside(t, n3, daemon.RunOptions{
		RunnerArgv: []string{filepath.Join(bin, "skein"), "runner"},
		Wall:       func() time.Time { return time.Now().Round(0).Add(time.Duration(off.Load())) },
		Synced:     func() bool { return off.Load() == 0 },
	})
	eventually(ctx, t, time.Minute, "n3 says that its clock is ahead", func() error {
		s, err := n3.api.Status(ctx)
		if err == nil && !slices.ContainsFunc(s.Reasons, func(r string) bool {
			return strings.Contains(r, "its clock is 2h0m0s ahead of others, and 0 of 2 other voters agree with it")
		}) {
			err = fmt.Errorf("%q", s.Reasons)
		}
		return err
	})
	d.operator(ctx, t, n3, "status")
	d.operator(ctx, t, n3, "check")
	d.operator(ctx, t, d.hosts[0], "check")
	if now := headOf(ctx, t, d, n3, "n3/1"); now != before {
		t.Errorf("n3/1 ends at %s, at %s before the start: it was written to", now, before)
	}
	off.Store(0)
	eventually(ctx, t, time.Minute, "n3 is well", func() error {
		s, err := n3.api.Status(ctx)
		if err == nil && s.State != api.StateOK {
			err = fmt.Errorf("%s: %q", s.State, s.Reasons)
		}
		return err
	})
	allEqual(ctx, t, d)
	kill(t, d.hosts[0]) // the holder
	eventually(ctx, t, time.Minute, "n2 or n3 holds", func() error {
		l, err := d.hosts[1].api.Lease(ctx)
		if err == nil && (l.Holder == "" || l.Holder == "n1") {
			err = fmt.Errorf("%q holds", l.Holder)
		}
		return err
	})
	serves(ctx, t, d, d.hosts[1], "after the holder died")
	d.operator(ctx, t, d.hosts[1], "check")
}

// writeAhead writes into the log of a stopped host as a daemon with a wrong clock
// would.
func writeAhead(ctx context.Context, t *testing.T, h *host, by time.Duration, drafts ...event.Draft) {
	t.Helper()
	id, records, err := join.Load(h.stateDir())
	if err != nil {
		t.Fatal(err)
	}
	l, err := eventlog.Open(eventlog.Options{
		Dir: filepath.Join(h.stateDir(), "log"), Cluster: id.Cluster.String(), Self: id.Node, Key: id.IDKey(),
		KeyOf: func(n cluster.NodeID) ed25519.PublicKey { return id.Roster(records).KeyOf(n) },
		Wall:  func() time.Time { return time.Now().Add(by) }, MayAct: func(cluster.Term) bool { return true },
		PullEvery: -1, Logger: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	_, err = l.Append(ctx, drafts)
	cancel()
	if err := errors.Join(err, <-ended); err != nil {
		t.Fatal(err)
	}
}

// TestChainAhead starts a host whose log runs two hours ahead, as earlier versions
// wrote it. Every host names the chain; nothing waits for it; it ends by a new
// incarnation, which says the facts of the old one again, and all hosts agree.
func TestChainAhead(t *testing.T) {
	parallel(t)
	d, ctx := startWith(t, 3, calm)
	n1, n2, n3 := d.hosts[0], d.hosts[1], d.hosts[2]
	handOver(ctx, t, n3, "n1", "n3 will be stopped")
	halt(t, n3)
	writeAhead(
		ctx, t, n3, 2*time.Hour,
		event.Draft{Kind: event.KindHostStarted, Body: event.HostStarted{Version: "old", Boot: 1}},
		event.Draft{Kind: event.KindMTUBlackhole, Body: event.MTUBlackhole{Peer: "n2", From: 1420, To: 1280}},
	)
	if err := n3.run(); err != nil {
		t.Fatal(err)
	}
	for _, h := range d.hosts {
		eventually(ctx, t, time.Minute, h.name+" names the chain", func() error {
			s, err := h.api.Status(ctx)
			if err == nil && !slices.ContainsFunc(s.Reasons, func(r string) bool {
				return strings.Contains(r, "n3/1 is 2h0m0s ahead of the clocks") || strings.Contains(r, "n3/1 is 1h59m")
			}) {
				err = fmt.Errorf("%q", s.Reasons)
			}
			return err
		})
		d.operator(ctx, t, h, "check")
		if f := found(ctx, t, h, "log-ahead"); f.Verdict != api.VerdictWarn && f.Verdict != api.VerdictFail {
			t.Errorf("%s: %+v", h.name, f)
		}
	}
	kill(t, n1) // the holder
	eventually(ctx, t, time.Minute, "n3 goes on as n3/2", func() error {
		if headOf(ctx, t, d, n2, "n3/2") == "0" {
			return errors.New("not yet")
		}
		return nil
	})
	serves(ctx, t, d, n2, "after the holder died")
	start1(t, n1)
	clusterIs(ctx, t, d.hosts, 3, 3)
	allEqual(ctx, t, d)
	for _, h := range d.hosts {
		eventually(ctx, t, time.Minute, h.name+" is well", func() error {
			s, err := h.api.Status(ctx)
			if err == nil && s.State != api.StateOK {
				err = fmt.Errorf("%s: %q", s.State, s.Reasons)
			}
			return err
		})
	}
	var reasons, facts []string
	for _, e := range eventsOf(ctx, t, n2, event.KindIncarnation) {
		reasons = append(reasons, body[event.Incarnation](t, e).Reason)
	}
	for _, e := range eventsOf(ctx, t, n2, event.KindMTUBlackhole) {
		facts = append(facts, e.Source.String())
	}
	if len(reasons) != 1 || !strings.Contains(reasons[0], "ahead of the other hosts' clocks") || !slices.Equal(facts, []string{"n3/2"}) {
		t.Errorf("incarnations %q, facts in %q", reasons, facts)
	}
	if named := eventsOf(ctx, t, n2, event.KindChainAhead); len(named) == 0 {
		t.Error("no event names the chain")
	}
	d.operator(ctx, t, n2, "events", "--kind", "chain_ahead")
	d.operator(ctx, t, n2, "events", "--kind", "incarnation")
	d.operator(ctx, t, n2, "check")
}
