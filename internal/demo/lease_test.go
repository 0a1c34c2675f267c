package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/cut"
)

// agree waits until ok accepts the status of every host.
func agree(ctx context.Context, t *testing.T, hosts []*host, what string, ok func(api.Status) bool) {
	t.Helper()
	for _, h := range hosts {
		if err := h.await(ctx, what, ok); err != nil {
			t.Fatalf("%v; last lease %+v, reasons %q", err, h.last.Lease, h.last.Reasons)
		}
	}
}

// oneHolds waits until the hosts see each other and nobody else, and one of them
// holds the lease and publishes: the same one for all. Which one that is depends on
// how busy the machine is.
func oneHolds(ctx context.Context, t *testing.T, hosts []*host) {
	t.Helper()
	eventually(ctx, t, time.Minute, "one holds and publishes", func() error {
		var first api.Status
		for i, h := range hosts {
			s, err := h.api.Status(ctx)
			if err != nil {
				return err
			}
			if i == 0 {
				first = s
			}
			l := s.Lease
			held := slices.ContainsFunc(hosts, func(o *host) bool { return l.Holder == cluster.NodeID(o.name) })
			if !held || l.Publisher != l.Holder || l.Holder != first.Lease.Holder || s.Members.Alive != len(hosts) {
				return fmt.Errorf("%s: %+v, %d alive; %s: %+v", h.name, l, s.Members.Alive, hosts[0].name, first.Lease)
			}
		}
		return nil
	})
}

// kill ends a daemon with SIGKILL.
func kill(t *testing.T, h *host) {
	t.Helper()
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-h.done
}

// stop ends a daemon with SIGTERM and waits for it.
func stop(ctx context.Context, t *testing.T, h *host) {
	t.Helper()
	if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ends(ctx, t, h, 20*time.Second)
}

func start1(t *testing.T, h *host) {
	t.Helper()
	if err := h.run(); err != nil {
		t.Fatal(err)
	}
}

// handOver asks h to hand the lease to another host, until that host has it: it may
// lack the latest events, and on a busy machine a third one may win.
func handOver(ctx context.Context, t *testing.T, h *host, to cluster.NodeID, reason string) {
	t.Helper()
	var asked time.Time
	eventually(ctx, t, 30*time.Second, "the lease goes to "+string(to), func() error {
		l, err := h.api.Lease(ctx)
		switch {
		case err != nil:
			return err
		case l.Holder == to:
			return nil
		case l.Holder == "" || time.Since(asked) < 2*time.Second:
			return fmt.Errorf("%q holds term %d", l.Holder, l.Term)
		}
		if _, err = h.api.StepDown(ctx, api.StepDownRequest{To: to, Reason: reason}); err == nil {
			asked = time.Now()
		}
		return errors.Join(err, fmt.Errorf("%s held term %d", l.Holder, l.Term))
	})
}

// found reports a finding of a host's doctor.
func found(ctx context.Context, t *testing.T, h *host, check string) api.Finding {
	t.Helper()
	d, err := h.api.Doctor(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range d.Findings {
		if f.Check == check {
			return f
		}
	}
	t.Fatalf("no check %s", check)
	return api.Finding{}
}

// TestLeaseOperations is an operator's day with three hosts: both duties are
// shown everywhere; voters change through a host that does not hold, one at a
// time; the lease is handed to a host by name; a voter whose record of votes is
// lost abstains, says so and is admitted again; the history tells all of it,
// after restarts too.
func TestLeaseOperations(t *testing.T) {
	parallel(t)
	d, ctx := startWith(t, 3, func(d *demo) { d.o.Profile = cluster.ProfileLAN })
	n1, n2, n3 := d.hosts[0], d.hosts[1], d.hosts[2]
	both := func(holder cluster.NodeID) func(api.Status) bool {
		return func(s api.Status) bool {
			return s.Lease.Holder == holder && s.Lease.Publisher == holder && s.Lease.PublishWhy == api.PublishLease &&
				s.Lease.Publishing == (s.Node == holder) && s.Lease.TenureSeconds != nil
		}
	}
	agree(ctx, t, d.hosts, "shows both duties of n1", both("n1"))
	out, _, _ := d.cli(ctx, n3, "status")
	if said := strings.Join(strings.Fields(out), " "); !strings.Contains(said, " holder n1, term ") || !strings.Contains(said, " publisher n1, as the holder ") {
		t.Errorf("status:\n%s", out)
	}

	t.Run("voters", func(t *testing.T) { operateVoters(ctx, t, d) })

	// To a host by name, asked of one that does not hold.
	for to, code := range map[cluster.NodeID]api.Code{"n9": api.CodeNotFound, "n1": api.CodeConflict} {
		if _, err := n2.api.StepDown(ctx, api.StepDownRequest{To: to}); !api.IsCode(err, code) {
			t.Errorf("step down to %s: %v, want %s", to, err, code)
		}
	}
	handOver(ctx, t, n2, "n3", "maintenance")
	agree(ctx, t, d.hosts, "shows both duties of n3", both("n3"))
	eventually(ctx, t, 20*time.Second, "the log says who asked for it", func() error {
		for _, e := range eventsOf(ctx, t, n2, event.KindStepDownAsked) {
			var b event.StepDownAsked
			err := json.Unmarshal(e.Body, &b)
			if err == nil && b.Reason == "maintenance" && b.Successor == "n3" && b.Actor == fmt.Sprintf("uid:%d@n2", os.Getuid()) {
				return nil
			}
		}
		return errors.New("not told")
	})

	t.Run("lost votes", func(t *testing.T) { loseVotes(ctx, t, d, n2, n1) })

	eventually(ctx, t, 20*time.Second, "the log tells of every host's admission, the founder's too", func() error {
		joined := map[cluster.NodeID]int{}
		for _, e := range eventsOf(ctx, t, n2, event.KindMemberJoined) {
			var b event.MemberJoined
			if err := json.Unmarshal(e.Body, &b); err != nil {
				return err
			}
			joined[b.Node]++
			if (b.Node == "n1") != (b.Invite == "") {
				return fmt.Errorf("%+v", b)
			}
		}
		if joined["n1"] != 1 || joined["n2"] != 1 || joined["n3"] != 1 {
			return fmt.Errorf("%v", joined)
		}
		return nil
	})

	// The holder dies without releasing its lease.
	handOver(ctx, t, n1, "n3", "again")
	agree(ctx, t, d.hosts, "shows both duties of n3", both("n3"))
	kill(t, n3)
	agree(ctx, t, []*host{n1, n2}, "another has both duties", func(s api.Status) bool {
		return s.Lease.Holder != "" && s.Lease.Holder != "n3" && s.Lease.Publisher == s.Lease.Holder && s.Lease.PublishWhy == api.PublishLease
	})
	eventually(ctx, t, 20*time.Second, "the next holder writes down that its predecessor was lost", func() error {
		for _, e := range eventsOf(ctx, t, n1, event.KindMemberHealth) {
			var b event.MemberHealth
			if err := json.Unmarshal(e.Body, &b); err != nil {
				return err
			}
			if b.Node == "n3" && b.From == cluster.Alive && (b.To == cluster.Suspect || b.To == cluster.Dead) {
				return nil
			}
		}
		return errors.New("not told")
	})
	start1(t, n3)
	clusterIs(ctx, t, d.hosts, 3, 3)
	history := func(h *host) []api.TermRecord {
		t.Helper()
		l, err := h.api.LeaseHistory(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return l.Terms
	}
	want := []string{"n1: drill -> n3", "n3: back -> n1", "n1: maintenance -> n3", "n3: expired -> "}
	told := func(list []api.TermRecord) (out []string) {
		for _, r := range slices.Backward(list) {
			if r.Cause != "" {
				out = append(out, fmt.Sprintf("%s: %s -> %s", r.Holder, r.Cause, r.Successor))
			}
		}
		return out
	}
	for _, h := range d.hosts {
		eventually(ctx, t, 10*time.Second, h.name+" knows the history", func() error {
			got := told(history(h))
			rest := want
			for _, line := range got {
				if len(rest) > 0 && strings.HasPrefix(line, rest[0]) {
					rest = rest[1:]
				}
			}
			if len(rest) > 0 {
				return fmt.Errorf("%q, want among them %q", got, want)
			}
			return nil
		})
	}
	ended := func(list []api.TermRecord) []api.TermRecord {
		return slices.DeleteFunc(list, func(r api.TermRecord) bool { return r.Cause == "" })
	}
	before := ended(history(n2))
	restart(ctx, t, n2)
	if err := n2.await(ctx, "answers", func(api.Status) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if got := ended(history(n2)); len(got) < len(before) || !slices.EqualFunc(got[len(got)-len(before):], before, func(a, b api.TermRecord) bool {
		return a.Term == b.Term && a.Holder == b.Holder && a.Cause == b.Cause && a.StartedAt.Equal(b.StartedAt)
	}) {
		t.Errorf("history after a restart %+v, before %+v", got, before)
	}
	published := map[cluster.NodeID]bool{}
	for _, e := range eventsOf(ctx, t, n1, event.KindPublishing) {
		if b := body[event.Publishing](t, e); b.Publishing {
			published[e.Source.Node] = true
		}
	}
	if !published["n1"] || !published["n3"] {
		t.Errorf("events of the publishing duty: %v, want n1 and n3", published)
	}
}

// operateVoters changes the voters through n3, a sponsor that does not hold.
func operateVoters(ctx context.Context, t *testing.T, d *demo) {
	n3 := d.hosts[2]
	for name, c := range map[string]struct {
		req  api.VotersRequest
		code api.Code
	}{
		"stranger":  {api.VotersRequest{Add: "n9"}, api.CodeNotFound},
		"strangers": {api.VotersRequest{Voters: []cluster.NodeID{"n1", "n9"}}, api.CodeNotFound},
		"nothing":   {api.VotersRequest{}, api.CodeInvalidRequest},
	} {
		if _, err := n3.api.SetVoters(ctx, c.req); !api.IsCode(err, c.code) {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
	out, errs, code := d.cli(ctx, n3, "lease", "voters", "remove", "n2", "--yes")
	if code != 0 || !strings.Contains(errs, "wanted: n1,n3 (chosen by an operator)") {
		t.Fatalf("exit %d, %q, %q", code, out, errs)
	}
	agree(ctx, t, d.hosts, "two voters", func(s api.Status) bool { return s.Lease.Voters == 2 && s.Lease.Holder != "" })
	v, err := n3.api.Voters(ctx)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(v.Voters, func(x api.Voter) bool { return x.Node == "n2" })
	if v.TargetAuto || !slices.Equal(v.Target, []cluster.NodeID{"n1", "n3"}) || i < 0 || v.Voters[i].Voter || v.Voters[i].Target {
		t.Errorf("voters %+v, want n1 and n3 by an operator", v)
	}
	// What an operator chose stays, whoever is better.
	handOver(ctx, t, n3, "n3", "drill")
	agree(ctx, t, d.hosts, "n3 holds", func(s api.Status) bool { return s.Lease.Holder == "n3" && s.Lease.Voters == 2 })
	if _, err := d.hosts[0].api.SetVoters(ctx, api.VotersRequest{Auto: true}); err != nil {
		t.Fatal(err)
	}
	agree(ctx, t, d.hosts, "three voters", func(s api.Status) bool { return s.Lease.Voters == 3 && s.Lease.Mode == cluster.ModeQuorum })
	// A voter that another host knows on its disk is shown everywhere.
	eventually(ctx, t, 10*time.Second, "the acknowledged epochs are shown", func() error {
		v, err := d.hosts[1].api.Voters(ctx)
		if err != nil {
			return err
		}
		for _, x := range v.Voters {
			if x.Epoch == nil || *x.Epoch != v.Config.Epoch || !x.Voter {
				return fmt.Errorf("%+v", v)
			}
		}
		return nil
	})
	eventually(ctx, t, 5*time.Second, "the log says who changed the voters", func() error {
		var got []string
		for _, e := range eventsOf(ctx, t, d.hosts[1], event.KindVotersSet) {
			b := body[event.VotersSet](t, e)
			got = append(got, fmt.Sprintf("%v %t %s", b.Voters, b.Auto, b.Actor))
		}
		if len(got) == 2 && strings.HasPrefix(got[0], "[n1 n3] false uid:") && strings.HasSuffix(got[0], "@n3") &&
			strings.HasPrefix(got[1], "[] true uid:") && strings.HasSuffix(got[1], "@n1") {
			return nil
		}
		return fmt.Errorf("%q", got)
	})
	handOver(ctx, t, n3, "n1", "back")
	agree(ctx, t, d.hosts, "n1 holds", func(s api.Status) bool { return s.Lease.Holder == "n1" })
}

// loseVotes removes the record of votes of voter h while it is down. It must
// abstain, and say so for as long as the others are no majority without it; when
// they are, it is taken out of the voters and in again.
func loseVotes(ctx context.Context, t *testing.T, d *demo, h, other *host) {
	before, err := h.api.Lease(ctx)
	if err != nil {
		t.Fatal(err)
	}
	stop(ctx, t, other)
	stop(ctx, t, h)
	if err := os.Remove(filepath.Join(h.stateDir(), "vote.json")); err != nil {
		t.Fatal(err)
	}
	start1(t, h)
	if err := h.await(ctx, "abstains", func(s api.Status) bool {
		return s.Lease.Holder == "" && s.State == api.StateDegraded && slices.Equal(s.Lease.Abstaining, []cluster.NodeID{cluster.NodeID(h.name)}) &&
			slices.Contains(s.Reasons, h.name+" abstains: vote record is missing")
	}); err != nil {
		t.Fatalf("%v: %+v", err, h.last)
	}
	start1(t, other)
	agree(ctx, t, d.hosts, "it votes again", func(s api.Status) bool {
		return s.Lease.Voters == 3 && len(s.Lease.Abstaining) == 0 && s.Lease.Holder != "" && s.Members.Alive == 3
	})
	after, err := h.api.Lease(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if after.Config.Epoch < before.Config.Epoch+2 {
		t.Errorf("epoch %d before, %d after: it was not taken out and in again", before.Config.Epoch, after.Config.Epoch)
	}
}

// TestTwoByMajority has two voters in mode quorum without a witness: when one
// is lost the other stops, says why and what would help, and publishes.
func TestTwoByMajority(t *testing.T) {
	parallel(t)
	d, ctx := startWith(t, 2, func(d *demo) {
		d.mode = cluster.ModeQuorum
		d.env = func(int, int) []string { return []string{"SKEIN_LEASE_MODE=quorum"} }
	})
	n1, n2 := d.hosts[0], d.hosts[1]
	eventually(ctx, t, 30*time.Second, "doctor warns beforehand", func() error {
		if f := found(ctx, t, n2, "voters"); f.Verdict != api.VerdictWarn || !strings.Contains(f.Detail, "two voters in mode quorum") || !strings.Contains(f.Hint, "witness") {
			return fmt.Errorf("%+v", f)
		}
		return nil
	})
	kill(t, n1)
	agree(ctx, t, []*host{n2}, "it knows no holder and publishes", func(s api.Status) bool {
		return s.Lease.Holder == "" && s.Lease.Publisher == "n2" && s.Lease.Publishing && s.Lease.PublishWhy == api.PublishNoLease &&
			s.State == api.StateDegraded
	})
	eventually(ctx, t, 10*time.Second, "doctor says why", func() error {
		f := found(ctx, t, n2, "lease-margin")
		if f.Verdict != api.VerdictFail || !strings.Contains(f.Detail, "1 of 2 voters are alive, 2 must be") || !strings.Contains(f.Hint, "witness") {
			return fmt.Errorf("%+v", f)
		}
		return nil
	})
	start1(t, n1)
	clusterIs(ctx, t, d.hosts, 2, 2)
	agree(ctx, t, d.hosts, "one publisher", func(s api.Status) bool { return s.Lease.Publisher == s.Lease.Holder })
}

// TestOtherProfile joins a host with another profile: it takes no part in the lease,
// and every host reports which one differs.
func TestOtherProfile(t *testing.T) {
	parallel(t)
	d, ctx := start(t, 1)
	n1 := d.hosts[0]
	h := join1(ctx, t, d, 1, "SKEIN_LEASE_PROFILE=lan")
	for _, c := range []struct {
		h    *host
		text string
	}{
		{n1, "lease.profile fast here and on 1 hosts in all, another on n2 (lan)"},
		{h, "this host has lease.profile lan, others have another: n1 (fast)"},
	} {
		eventually(ctx, t, 15*time.Second, c.h.name+" says who differs", func() error {
			s, err := c.h.api.Status(ctx)
			if err != nil {
				return err
			}
			f := found(ctx, t, c.h, "lease-profile")
			if (f.Detail != c.text && !strings.Contains(f.Detail, "this host has lease.profile fast")) || f.Verdict != api.VerdictFail ||
				!slices.ContainsFunc(s.Reasons, func(r string) bool { return strings.Contains(r, "has profile") }) {
				return fmt.Errorf("%+v, reasons %q", f, s.Reasons)
			}
			return nil
		})
	}
	if s, err := n1.api.Status(ctx); err != nil || s.Lease.Voters != 1 || s.Lease.Holder != "n1" {
		t.Errorf("%+v, %v", s.Lease, err)
	}
	h.env = nil
	restart(ctx, t, h)
	clusterIs(ctx, t, d.hosts, 2, 2)
}

// join1 lets one more host join, with more in its environment.
func join1(ctx context.Context, t *testing.T, d *demo, i int, env ...string) *host {
	t.Helper()
	h, err := newHost(d, i)
	if err != nil {
		t.Fatal(err)
	}
	h.env = append(h.env, env...)
	d.hosts = append(d.hosts, h)
	token, err := d.hosts[0].api.CreateToken(ctx, time.Minute, 1)
	if err != nil {
		t.Fatal(err)
	}
	h.token = filepath.Join(h.dir, "token")
	if err := os.WriteFile(h.token, []byte(token.Secret.Reveal()), 0o600); err != nil {
		t.Fatal(err)
	}
	start1(t, h)
	return h
}

// TestRecoverLease loses two of three voters: the third cannot hold, until its
// operator makes it the only voter. It then knows all that was acknowledged,
// and the two, when they come back after all, follow and vote again.
func TestRecoverLease(t *testing.T) {
	parallel(t)
	d, ctx := start(t, 3)
	n1, n2, n3 := d.hosts[0], d.hosts[1], d.hosts[2]
	spec, err := d.upload(ctx, filepath.Join(bin, "examples", "pi.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	spec.Key, spec.Iterations, spec.Chunk = "before", 100_000, 10_000
	sub := submit(ctx, t, n3, spec)
	want := finish(ctx, t, n3, sub.Job)
	before, err := n3.api.Lease(ctx)
	if err != nil {
		t.Fatal(err)
	}
	kill(t, n1)
	kill(t, n2)
	agree(ctx, t, []*host{n3}, "no holder is left", func(s api.Status) bool { return s.Lease.Holder == "" && s.Lease.Publisher == "n3" })
	recovering := []string{"lease", "recover", "--config", n3.config}
	if _, errs, code := d.cli(ctx, n3, append(recovering, "--yes")...); code == 0 || !strings.Contains(errs, "stop it first") {
		t.Errorf("under a daemon: exit %d, %q", code, errs)
	}
	stop(ctx, t, n3)
	// What it saw comes before the question, also if it was started once more.
	const saw = `would make n3 the only voter in place of n1,n2,n3. When its daemon stopped [0-9.m]+s ago, it had not heard n1 for [0-9.]+s and n2 for [0-9.]+s: if they live,`
	for _, when := range []string{"stopped", "stopped again"} {
		if when == "stopped again" {
			start1(t, n3)
			stop(ctx, t, n3)
		}
		if _, errs, code := d.cli(ctx, n3, recovering...); code != 2 || !strings.Contains(errs, "--yes") || !regexp.MustCompile(saw).MatchString(errs) {
			t.Errorf("%s, unasked: exit %d, %q", when, code, errs)
		}
	}
	if _, errs, code := d.cli(ctx, n3, append(recovering, "--yes")...); code != 0 || !strings.Contains(errs, "n3 is the only voter") {
		t.Fatalf("exit %d, %q", code, errs)
	}
	if _, errs, code := d.cli(ctx, n3, append(recovering, "--yes")...); code != 1 || !strings.Contains(errs, "only voter already") {
		t.Errorf("again: exit %d, %q", code, errs)
	}
	start1(t, n3)
	agree(ctx, t, []*host{n3}, "it holds alone", func(s api.Status) bool { return s.Lease.Holder == "n3" && s.Lease.Voters == 1 })
	if got := finish(ctx, t, n3, sub.Job); got.Iterations != want.Iterations {
		t.Errorf("job %+v, before %+v", got.Iterations, want.Iterations)
	}
	spec.Key = "alone"
	alone := submit(ctx, t, n3, spec)
	finish(ctx, t, n3, alone.Job)
	// The two come back together, a majority of what they know.
	start1(t, n1)
	start1(t, n2)
	clusterIs(ctx, t, d.hosts, 3, 3)
	for _, h := range d.hosts {
		eventually(ctx, t, 10*time.Second, h.name+" knows both jobs", func() error {
			for _, id := range []job.ID{sub.Job, alone.Job} {
				if j, err := h.api.Job(ctx, string(id)); err != nil || j.State != job.Completed {
					return fmt.Errorf("%s: %s, %w", id, j.State, errors.Join(err, errors.New("not there")))
				}
			}
			return nil
		})
	}
	const forcedTerms = 1 << 20 // the forced term is at least this far above
	after, err := n1.api.Lease(ctx)
	if err != nil || after.Term < before.Term+forcedTerms || after.Config.Epoch <= before.Config.Epoch {
		t.Errorf("term %d after %d, epoch %d after %d, %v", after.Term, before.Term, after.Config.Epoch, before.Config.Epoch, err)
	}
	forced := eventsOf(ctx, t, n1, event.KindVotersSet)
	if len(forced) != 1 {
		t.Fatalf("%d events of forced voters", len(forced))
	}
	if b := body[event.VotersSet](t, forced[0]); !b.Forced || !slices.Equal(b.Voters, []cluster.NodeID{"n3"}) || len(b.Previous) != 3 || !strings.HasSuffix(b.Actor, "@n3") {
		t.Errorf("event %+v", b)
	}
}

// TestAvailableThree cuts one of three hosts off in mode available: both sides
// schedule and finish a job of their own and the one that was running; when the cut
// is healed one host holds, every job is everywhere, and each chunk counts once.
func TestAvailableThree(t *testing.T) {
	parallel(t)
	apart := cut.New()
	t.Cleanup(apart.Close)
	var ports []int
	d, ctx := startWith(t, 3, func(d *demo) {
		d.mode = cluster.ModeAvailable
		d.env = func(_, port int) []string {
			ports = append(ports, port)
			at, err := apart.Front(port)
			if err != nil {
				t.Fatal(err)
			}
			return []string{"SKEIN_LEASE_MODE=available", "SKEIN_MESH_ADVERTISE=" + at.String()}
		}
	})
	n3 := d.hosts[2]
	spec, err := d.upload(ctx, filepath.Join(bin, "examples", "pi.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	// submit waits until as many voters have the job as can be reached: their
	// streams may open a moment after their hosts are known to be alive.
	submit := func(h *host, key string, iterations uint64, voters int) (sub api.SubmitResponse) {
		t.Helper()
		spec.Key, spec.Iterations, spec.Chunk = key, iterations, iterations/100
		eventually(ctx, t, 30*time.Second, fmt.Sprintf("%s is stable on %d voters", key, voters), func() (err error) {
			if sub, err = h.api.Submit(ctx, api.SubmitRequest{Spec: spec}); err == nil && sub.StableVoters != voters {
				err = fmt.Errorf("on %d", sub.StableVoters)
			}
			return err
		})
		return sub
	}
	shared := submit(n3, "shared", 200_000_000, 3)
	apart.Put(ports[2], 1)
	agree(ctx, t, []*host{n3}, "it holds and publishes alone", func(s api.Status) bool { return s.Lease.Holder == "n3" && s.Lease.Publisher == "n3" })
	oneHolds(ctx, t, d.hosts[:2])
	here, there := submit(n3, "here", 1_000_000, 1), submit(d.hosts[1], "there", 1_000_000, 2)
	finish(ctx, t, n3, here.Job)
	finish(ctx, t, d.hosts[0], there.Job)
	finish(ctx, t, n3, shared.Job)
	finish(ctx, t, d.hosts[0], shared.Job)

	apart.Put(ports[2], 0)
	oneHolds(ctx, t, d.hosts)
	clusterIs(ctx, t, d.hosts, 3, 3)
	var hashes []cluster.Hash
	eventually(ctx, t, 20*time.Second, "all know the same", func() error {
		hashes = hashes[:0]
		for _, h := range d.hosts {
			s, err := h.api.Status(ctx)
			if err != nil {
				return err
			}
			hashes = append(hashes, s.Log.StateHash)
		}
		if hashes[0] != hashes[1] || hashes[0] != hashes[2] {
			return fmt.Errorf("state hashes %v", hashes)
		}
		return nil
	})
	for _, sub := range []api.SubmitResponse{shared, here, there} {
		for _, h := range d.hosts {
			j, err := h.api.Job(ctx, string(sub.Job))
			if err != nil || j.State != job.Completed || j.Iterations.Accepted != j.Iterations.Total || j.Chunks.Accepted != 100 {
				t.Errorf("%s on %s: %s, %+v, %+v, %v", sub.Spec.Key, h.name, j.State, j.Iterations, j.Chunks, err)
			}
		}
	}
	twice := map[int]int{}
	for _, e := range eventsOf(ctx, t, n3, event.KindChunksAccepted) {
		if b := body[event.ChunksAccepted](t, e); b.Job == shared.Job {
			for _, a := range b.Accepts {
				twice[a.Chunk]++
			}
		}
	}
	doubled := 0
	for _, n := range twice {
		if n > 1 {
			doubled++
		}
	}
	t.Logf("%d of 100 chunks were accepted on both sides, and count once", doubled)
}
