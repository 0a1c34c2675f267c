package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// TestAudit does what operators do on three real hosts, and then asks the log:
// each change names who asked for it and where, a follower saw each event once
// over a restart of its daemon, all hosts agree, and a replay tells the same
// as the running daemon.
func TestAudit(t *testing.T) {
	parallel(t)
	d, ctx := start(t, 3)
	n1, n2, n3 := d.hosts[0], d.hosts[1], d.hosts[2]
	clusterIs(ctx, t, d.hosts, 3, 3)

	seen := map[event.SourceID]uint64{}
	follow, stopFollow := context.WithCancel(ctx)
	defer stopFollow()
	followed := make(chan error, 1)
	told := make(chan api.Event, 4096)
	go func() {
		followed <- n2.api.Events(follow, api.EventQuery{Follow: true}, api.FollowOptions{}, func(e api.Event) error {
			if e.Seq != seen[e.Source]+1 {
				return fmt.Errorf("event %d of %s after %d", e.Seq, e.Source, seen[e.Source])
			}
			seen[e.Source] = e.Seq
			told <- e
			return nil
		})
	}()

	operate(ctx, t, d)
	here := fmt.Sprintf("uid:%d", os.Getuid())
	for kind, actor := range map[event.Kind]string{
		event.KindTokenCreated:  here + "@n1",
		event.KindTokenRevoked:  here + "@n1",
		event.KindVotersSet:     here + "@n1",
		event.KindJobSubmitted:  here,
		event.KindJobStopped:    here + "@n3",
		event.KindStepDownAsked: here + "@n2",
		event.KindMemberRekeyed: here + "@n3",
	} {
		eventually(ctx, t, 60*time.Second, "the log says who did "+string(kind), func() error {
			for _, e := range eventsOf(ctx, t, n2, kind) {
				var b struct{ Actor, Owner string }
				if err := json.Unmarshal(e.Body, &b); err != nil {
					return err
				}
				if b.Actor == actor || b.Owner == actor {
					return nil
				}
			}
			return fmt.Errorf("no %s by %s", kind, actor)
		})
	}
	restart(ctx, t, n2)
	clusterIs(ctx, t, d.hosts, 3, 3)
	started := func(e api.Event) bool { return e.Kind == event.KindHostStarted && e.Source.Node == "n2" }
	for n := 0; n < 2; { // the second start of n2 comes after the restart
		select {
		case e := <-told:
			if started(e) {
				n++
			}
		case err := <-followed:
			t.Fatalf("follower ended: %v", err)
		case <-ctx.Done():
			t.Fatal("follower missed the start of its own host")
		}
	}
	stopFollow()
	if err := <-followed; !errors.Is(err, context.Canceled) {
		t.Errorf("follower: %v", err)
	}
	t.Run("verify", func(t *testing.T) { verifyAllHosts(ctx, t, d) })
	t.Run("replay", func(t *testing.T) { replayBeside(ctx, t, n3) })
	stop(ctx, t, n1)
	t.Run("n1 down", func(t *testing.T) {
		if err := n2.await(ctx, "n1 is not alive", func(s api.Status) bool { return s.Members.Alive == 2 }); err != nil {
			t.Fatal(err)
		}
		out, errs, code := d.cli(ctx, n2, "log", "verify", "--all-hosts", "-o", "tsv")
		if code != 6 || !strings.Contains(out, "n1\tunreached") || !strings.Contains(out, "n3\tok") {
			t.Errorf("exit %d: %s%s", code, out, errs)
		}
	})
}

// operate changes whatever an operator can change and undo.
func operate(ctx context.Context, t *testing.T, d *demo) {
	t.Helper()
	n1, n2, n3 := d.hosts[0], d.hosts[1], d.hosts[2]
	do := func(what string, f func() error) {
		t.Helper()
		eventually(ctx, t, 40*time.Second, what, f)
	}
	do("token", func() error {
		token, err := n1.api.CreateToken(ctx, time.Hour, 1)
		if err != nil {
			return err
		}
		return n1.api.RevokeToken(ctx, token.ID)
	})
	do("voters", func() error { _, err := n1.api.SetVoters(ctx, api.VotersRequest{Auto: true}); return err })
	do("rotate", func() error { _, err := n3.api.RotateKey(ctx); return err })
	spec, err := d.upload(ctx, filepath.Join(bin, "examples", "pi.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	spec.Key, spec.Iterations, spec.Chunk = "k", 1e12, 1e10
	var id job.ID
	do("submit", func() error {
		sub, err := n3.api.Submit(ctx, api.SubmitRequest{Spec: spec})
		id = sub.Job
		return err
	})
	do("stop", func() error { _, err := n3.api.StopJob(ctx, string(id), "enough"); return err })
	do("step down", func() error {
		_, err := n2.api.StepDown(ctx, api.StepDownRequest{Reason: "drill"})
		return err
	})
}

// verifyAllHosts asks through one host, and compares with what the hosts say
// of themselves.
func verifyAllHosts(ctx context.Context, t *testing.T, d *demo) {
	var out string
	eventually(ctx, t, 30*time.Second, "all logs are good, and equal", func() error {
		var errs string
		var code int
		out, errs, code = d.cli(ctx, d.hosts[0], "log", "verify", "--all-hosts", "-o", "json")
		if code != 0 {
			return fmt.Errorf("exit %d: %s%s", code, out, errs)
		}
		var got struct {
			Hosts []struct {
				Node  cluster.NodeID
				State string
				Heads string
				Check *api.LogCheck
			}
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			return err
		}
		for _, h := range got.Hosts {
			if h.State != "ok" || h.Check.Result.Unsigned > 0 || h.Heads != got.Hosts[0].Heads {
				return fmt.Errorf("%+v", h)
			}
			if h.Check.LiveStateHash == nil { // it is compared when the log rests for a moment
				return fmt.Errorf("%s: state of the daemon not compared", h.Node)
			}
		}
		if len(got.Hosts) != 3 {
			return fmt.Errorf("%d hosts", len(got.Hosts))
		}
		return nil
	})
}

// replayBeside replays the log of a running daemon and compares the end with
// the state that the daemon has.
func replayBeside(ctx context.Context, t *testing.T, h *host) {
	eventually(ctx, t, 20*time.Second, "the replay equals the live state", func() error {
		out, errs, code := h.d.cli(ctx, h, "log", "replay", "--state-dir", h.stateDir(), "-o", "json")
		if code != 0 {
			return fmt.Errorf("exit %d: %s", code, errs)
		}
		var r api.LogReplay
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			return err
		}
		s, err := h.api.Status(ctx)
		switch {
		case err != nil:
			return err
		case r.StateHash != s.Log.StateHash:
			return fmt.Errorf("state %s at %s, the daemon has %s", r.StateHash, r.Position, s.Log.StateHash)
		case len(r.Members) != 3 || len(r.Jobs) != 1 || r.Jobs[0].State != job.Cancelled || r.Lease.Holder != s.Lease.Holder:
			return fmt.Errorf("%+v", r)
		case !slices.ContainsFunc(r.Actions, func(a api.ReplayAction) bool { return a.Kind == event.KindStepDownAsked && a.Reason == "drill" }):
			return fmt.Errorf("actions %+v", r.Actions)
		}
		return nil
	})
}
