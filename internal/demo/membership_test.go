package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/membership/deviceplan"
)

// eventsOf reads the events of one kind that h knows.
func eventsOf(ctx context.Context, t *testing.T, h *host, kind event.Kind) []api.Event {
	t.Helper()
	var out []api.Event
	if err := h.api.Events(ctx, api.EventQuery{Kind: string(kind)}, api.FollowOptions{}, func(e api.Event) error {
		out = append(out, e)
		return nil
	}); err != nil {
		t.Fatalf("events of %s: %v", h.name, err)
	}
	return out
}

// eventually polls until ok holds.
func eventually(ctx context.Context, t *testing.T, within time.Duration, what string, ok func() error) time.Duration {
	t.Helper()
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		err := ok()
		if err == nil {
			return time.Since(start)
		}
		if wait.For(ctx, lookEvery()) != nil {
			t.Fatalf("not within %s: %s: %v", within, what, err)
		}
	}
}

// ends waits until the process of h ended and returns its exit code.
func ends(ctx context.Context, t *testing.T, h *host, within time.Duration) int {
	t.Helper()
	eventually(ctx, t, within, h.name+" ends", func() error {
		if h.alive() {
			return errors.New("still running")
		}
		return nil
	})
	return h.cmd.ProcessState.ExitCode()
}

// runOnce runs the daemon of h until it ends by itself and returns its output.
func runOnce(ctx context.Context, t *testing.T, h *host) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.d.o.Exe, "run", "--config", h.config)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// clusterIs waits until every host given sees alive members, and voters.
func clusterIs(ctx context.Context, t *testing.T, hosts []*host, alive, voters int) {
	t.Helper()
	for _, h := range hosts {
		if err := h.await(ctx, fmt.Sprintf("sees %d members, %d voters", alive, voters), func(s api.Status) bool {
			return s.Members.Total == alive && s.Members.Alive == alive && s.Lease.Voters == voters && s.Lease.Holder != ""
		}); err != nil {
			t.Fatalf("%v; last members %+v lease %+v", err, h.last.Members, h.last.Lease)
		}
	}
}

func body[T any](t *testing.T, e api.Event) T {
	t.Helper()
	var b T
	if err := json.Unmarshal(e.Body, &b); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestLeave lets two of three hosts leave, one after the other, one of them
// while it holds the lease: the voters shrink to one, the events stay
// readable, and who left says so when it is started again.
func TestLeave(t *testing.T) {
	parallel(t)
	d, ctx := startWith(t, 3, calm)
	n1, n2, n3 := d.hosts[0], d.hosts[1], d.hosts[2]
	if _, err := n1.api.Leave(ctx); !api.IsCode(err, api.CodeConflict) {
		t.Fatalf("the host with the root key may leave: %v", err)
	}
	handOver(ctx, t, n1, "n2", "drill")
	if err := n2.await(ctx, "holds", func(s api.Status) bool { return s.Lease.Holder == "n2" }); err != nil {
		t.Fatal(err)
	}
	// The mark cannot be written to its disk, so the others hear nothing of it.
	obstacle := filepath.Join(n2.stateDir(), "left", "x")
	if err := os.MkdirAll(obstacle, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := n2.api.Leave(ctx); err == nil || !strings.Contains(err.Error(), "mark as left") {
		t.Errorf("leaving without a mark: %v", err)
	}
	if err := os.RemoveAll(filepath.Dir(obstacle)); err != nil {
		t.Fatal(err)
	}
	if events := eventsOf(ctx, t, n1, event.KindMemberLeft); len(events) != 0 {
		t.Errorf("%d events of a host that did not leave", len(events))
	}
	if err := n1.await(ctx, "still has n2", func(s api.Status) bool { return s.Members.Total == 3 && s.Members.Alive == 3 }); err != nil {
		t.Fatal(err)
	}
	left, err := n2.api.Leave(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(left.Told) != 2 {
		t.Errorf("told %v, want n1 and n3", left.Told)
	}
	if code := ends(ctx, t, n2, 15*time.Second); code != 0 {
		t.Errorf("%s ended with %d", n2.name, code)
	}
	clusterIs(ctx, t, []*host{n1, n3}, 2, 2)

	if _, err := n3.api.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	if code := ends(ctx, t, n3, 15*time.Second); code != 0 {
		t.Errorf("%s ended with %d", n3.name, code)
	}
	clusterIs(ctx, t, []*host{n1}, 1, 1)

	text, err := os.ReadFile(filepath.Join(n1.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) { // an orderly leave troubles nobody
		if strings.Contains(line, `"level":"warn"`) || strings.Contains(line, `"level":"error"`) {
			t.Errorf("%s: %s", n1.name, line)
		}
	}

	for _, h := range []*host{n2, n3} {
		if _, _, err := join.Load(h.stateDir()); !errors.Is(err, join.ErrLeft) {
			t.Errorf("state directory of %s: %v, want %v", h.name, err, join.ErrLeft)
		}
		out, code := runOnce(ctx, t, h)
		if code == 0 || !strings.Contains(out, "left") || !strings.Contains(out, "hint:") {
			t.Errorf("%s started again: exit %d, %q", h.name, code, out)
		}
	}
	gone := map[cluster.NodeID]bool{}
	for _, e := range eventsOf(ctx, t, n1, event.KindMemberLeft) {
		b := body[event.MemberLeft](t, e)
		if gone[b.Node] = true; b.Actor == "" {
			t.Errorf("%s left without an actor", b.Node)
		}
	}
	if !gone["n2"] || !gone["n3"] {
		t.Errorf("events of leaving: %v", gone)
	}
	// Both were sponsors: a thief of n2's key may have signed its leave, so the
	// root key has the last word.
	if r, err := n1.api.Remove(ctx, "n2", "stolen"); err != nil || r.By != "n1" {
		t.Errorf("removal of a sponsor that left: %+v, %v", r, err)
	}
	eventually(ctx, t, 5*time.Second, "n2 is removed", func() error {
		members, err := n1.api.Raw(ctx, "/v1/members?all=true")
		if err == nil && !strings.Contains(string(members), `"removed":true`) {
			err = fmt.Errorf("members: %s", members)
		}
		return err
	})
	// The chains of the hosts that left are still checked with their keys.
	d.stopAll()
	for _, h := range []*host{n1, n2} { // n2's log is still to be read
		out, errs, code := d.cli(ctx, h, "log", "verify", "--state-dir", h.stateDir())
		if code != 0 {
			t.Errorf("log verify of %s: exit %d\n%s%s", h.name, code, out, errs)
		}
	}
}

// TestLeaveByMajority lets one of two voters in mode quorum leave: it must agree to
// its own removal, or nothing could be decided any more.
func TestLeaveByMajority(t *testing.T) {
	parallel(t)
	d, ctx := start(t, 2)
	for _, h := range d.hosts {
		reconfigure(t, h, "[lease]\n", "[lease]\nmode = \"quorum\"\n")
		restart(ctx, t, h)
	}
	for _, h := range d.hosts {
		if err := h.await(ctx, "goes by majority", func(s api.Status) bool {
			return s.Lease.Mode == cluster.ModeQuorum && s.Members.Alive == 2 && s.Lease.Holder != ""
		}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.hosts[1].api.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	clusterIs(ctx, t, d.hosts[:1], 1, 1)
}

// TestRestoredBackup starts a host from an old copy of its state directory:
// it comes back with an announcement later than all that the others know of
// it, so that none contradicts another.
func TestRestoredBackup(t *testing.T) {
	parallel(t)
	d, ctx := start(t, 3)
	h := d.hosts[2]
	stop := func() {
		t.Helper()
		if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		ends(ctx, t, h, 20*time.Second)
	}
	stop()
	backup := filepath.Join(t.TempDir(), "backup")
	if err := os.CopyFS(backup, os.DirFS(h.stateDir())); err != nil {
		t.Fatal(err)
	}
	if err := h.run(); err != nil {
		t.Fatal(err)
	}
	clusterIs(ctx, t, d.hosts, 3, 3)
	stop()
	if err := os.RemoveAll(h.stateDir()); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(h.stateDir(), os.DirFS(backup)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(h.stateDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := h.run(); err != nil {
		t.Fatal(err)
	}
	clusterIs(ctx, t, d.hosts, 3, 3)
	if events := eventsOf(ctx, t, d.hosts[0], event.KindMemberConflict); len(events) != 0 {
		t.Errorf("%d contradictions are logged, the first %s", len(events), events[0].Body)
	}
	if log, err := os.ReadFile(filepath.Join(h.dir, "log")); err != nil || strings.Contains(string(log), "restored backup") {
		t.Errorf("its epoch fell: %v", err)
	}
}

// TestRemove kills a sponsor and has it removed through a host that cannot do
// that itself: the voters shrink, the host cannot come back, and its name and
// key are not taken for a member's.
func TestRemove(t *testing.T) {
	parallel(t)
	d, ctx := startWith(t, 3, calm)
	n1, n2, n3 := d.hosts[0], d.hosts[1], d.hosts[2]
	if err := n3.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-n3.done
	if _, err := n2.api.Remove(ctx, "nobody", ""); !api.IsCode(err, api.CodeNotFound) {
		t.Errorf("removal of a stranger: %v", err)
	}
	if _, err := n2.api.Remove(ctx, "n2", ""); !api.IsCode(err, api.CodeConflict) {
		t.Errorf("removal of itself: %v", err)
	}
	if err := n1.await(ctx, "misses n3", func(s api.Status) bool { return s.Members.Alive == 2 }); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, 20*time.Second, "the holder wrote down that n3 is missing", func() error {
		for _, e := range eventsOf(ctx, t, n2, event.KindMemberHealth) {
			if b := body[event.MemberHealth](t, e); b.Node == "n3" && b.From == cluster.Alive && b.To == cluster.Suspect && e.Source.Node != "n3" {
				return nil
			}
		}
		return errors.New("no such event")
	})
	// Of the other voters only one would be alive: the lease would be lost.
	if _, err := n2.api.Leave(ctx); !api.IsCode(err, api.CodeConflict) || !strings.Contains(err.Error(), "majority") {
		t.Errorf("leaving without a majority left: %v", err)
	}
	began := time.Now()
	removed, err := n2.api.Remove(ctx, "n3", "stolen")
	if err != nil {
		t.Fatal(err)
	}
	if removed.By != "n1" {
		t.Errorf("removed by %s, want n1, which has the root key", removed.By)
	}
	clusterIs(ctx, t, []*host{n1, n2}, 2, 2)
	t.Logf("removed everywhere after %.2f s", time.Since(began).Seconds())
	if again, err := n2.api.Remove(ctx, "n3", "stolen"); err != nil || again.Member != "n3" {
		t.Errorf("removed again: %+v, %v", again, err)
	}
	events := eventsOf(ctx, t, n1, event.KindMemberRemoved)
	if len(events) != 1 {
		t.Fatalf("%d events of removal", len(events))
	}
	b := body[event.MemberRemoved](t, events[0])
	if b.Node != "n3" || b.Reason != "stolen" || !strings.HasSuffix(b.Actor, "@n2") {
		t.Errorf("event %+v, want n3, stolen, by somebody @n2", b)
	}
	// It does not know, and nobody hears it any more: it finds no holder.
	if err := n3.run(); err != nil {
		t.Fatal(err)
	}
	if err := n3.await(ctx, "answers", func(api.Status) bool { return true }); err != nil {
		t.Fatal(err)
	}
	alone, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := n3.await(alone, "knows a holder", func(s api.Status) bool { return s.Lease.Holder != "" || s.Members.Alive > 1 }); err == nil {
		t.Errorf("the removed host is let in: %+v", n3.last.Members)
	}
	clusterIs(ctx, t, []*host{n1, n2}, 2, 2)
}

// TestRemoveAlive removes a host that works, the holder itself: it hands over,
// learns that it is removed and ends with an error that says so.
func TestRemoveAlive(t *testing.T) {
	parallel(t)
	d, ctx := start(t, 3)
	n1, n2, n3 := d.hosts[0], d.hosts[1], d.hosts[2]
	handOver(ctx, t, n1, "n2", "drill")
	if err := n2.await(ctx, "holds", func(s api.Status) bool { return s.Lease.Holder == "n2" }); err != nil {
		t.Fatal(err)
	}
	if _, err := n3.api.Remove(ctx, "n2", "stolen"); err != nil {
		t.Fatal(err)
	}
	if code := ends(ctx, t, n2, 15*time.Second); code == 0 {
		t.Error("the removed host ended without an error")
	}
	clusterIs(ctx, t, []*host{n1, n3}, 2, 2)
	out, code := runOnce(ctx, t, n2)
	if code == 0 || !strings.Contains(out, join.ErrRemoved.Error()) || !strings.Contains(out, "hint:") {
		t.Errorf("started again: exit %d, %q", code, out)
	}
	members, err := n1.api.Raw(ctx, "/v1/members?all=true")
	if err != nil || !strings.Contains(string(members), `"removed":true`) {
		t.Errorf("members with all: %v\n%s", err, members)
	}
}

// TestRotateKey changes the WireGuard keys of all three hosts: nobody is ever
// suspected, every peer ends with the new key, and the new key outlives a
// restart.
func TestRotateKey(t *testing.T) {
	parallel(t)
	d, ctx := startWith(t, 3, calm)
	changes := len(d.hosts)
	for _, h := range d.hosts {
		before, err := h.api.Mesh(ctx)
		if err != nil {
			t.Fatal(err)
		}
		r, err := h.api.RotateKey(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if before.PublicKey != "" && r.PublicKey != before.PublicKey {
			t.Errorf("key was %s, now %s", before.PublicKey, r.PublicKey)
		}
		switch again, err := h.api.RotateKey(ctx); {
		case err != nil:
			t.Errorf("asked again: %v", err)
		case again.PublicKey == r.NextPublicKey: // the change was over: this is another
			r = again
			changes++
		case again.NextPublicKey != r.NextPublicKey:
			t.Errorf("asked again: %+v, want %+v", again, r)
		}
		took := eventually(ctx, t, 20*time.Second, h.name+" has its new key", func() error {
			for _, o := range d.hosts {
				m, err := o.api.Mesh(ctx)
				if err != nil {
					return err
				}
				if o == h && m.PublicKey != r.NextPublicKey {
					return fmt.Errorf("own key is %s", m.PublicKey)
				}
				for _, p := range m.Peers {
					if p.Node == cluster.NodeID(h.name) && (p.PublicKey != r.NextPublicKey || p.State != api.PeerUp) {
						return fmt.Errorf("%s has %s as %s, %s", o.name, h.name, p.PublicKey, p.State)
					}
				}
			}
			return nil
		})
		t.Logf("%s changed its key in %.2f s", h.name, took.Seconds())
		clusterIs(ctx, t, d.hosts, 3, 3)
	}
	eventually(ctx, t, 10*time.Second, "an event of each new key", func() error {
		if n := len(eventsOf(ctx, t, d.hosts[0], event.KindMemberRekeyed)); n != changes {
			return fmt.Errorf("%d events of %d", n, changes)
		}
		return nil
	})
	for _, e := range eventsOf(ctx, t, d.hosts[0], event.KindMemberHealth) {
		if b := body[event.MemberHealth](t, e); b.To == cluster.Suspect || b.To == cluster.Dead {
			t.Errorf("%s was taken for %s", b.Node, b.To)
		}
	}
	restart(ctx, t, d.hosts[1])
	clusterIs(ctx, t, d.hosts, 3, 3)
}

// TestRotateKeyKilled kills a host while its change of key is under way, at
// different times: it always comes back.
func TestRotateKeyKilled(t *testing.T) {
	parallel(t)
	d, ctx := start(t, 3)
	h := d.hosts[2]
	waits := []time.Duration{0, 700 * time.Millisecond, 1500 * time.Millisecond}
	if os.Getenv("SKEIN_PROVE") != "" {
		for i := range 20 {
			waits = append(waits, time.Duration(i)*100*time.Millisecond)
		}
	}
	for _, wait := range waits {
		if _, err := h.api.RotateKey(ctx); err != nil {
			t.Fatal(err)
		}
		timer := time.NewTimer(wait) // when the host dies is what varies
		<-timer.C
		if err := h.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-h.done
		if err := h.run(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		clusterIs(ctx, t, d.hosts, 3, 3)
		t.Logf("killed after %s, back after %.2f s", wait, time.Since(began).Seconds())
	}
}

// restart stops h cleanly and starts it again.
func restart(ctx context.Context, t *testing.T, h *host) {
	t.Helper()
	if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := ends(ctx, t, h, 20*time.Second); code != 0 {
		t.Fatalf("%s ended with %d", h.name, code)
	}
	if err := h.run(); err != nil {
		t.Fatal(err)
	}
}

// reconfigure replaces text in a host's configuration.
func reconfigure(t *testing.T, h *host, old, next string) {
	t.Helper()
	text, err := os.ReadFile(h.config)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		t.Fatalf("configuration of %s without %q", h.name, old)
	}
	if err := os.WriteFile(h.config, []byte(strings.Replace(string(text), old, next, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestAddressesChange stops three hosts, moves all but one to other ports and
// starts them: they find each other through the one that stayed.
func TestAddressesChange(t *testing.T) {
	parallel(t)
	d, ctx := start(t, 3)
	for _, h := range d.hosts {
		if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	for i, h := range d.hosts {
		ends(ctx, t, h, 20*time.Second)
		cached, err := deviceplan.CachedEndpoints(h.stateDir())
		if err != nil || len(cached) != 2 {
			t.Errorf("%s remembers %v, %v, want two hosts", h.name, cached, err)
		}
		if i == 2 {
			continue
		}
		port, err := d.freePort()
		if err != nil {
			t.Fatal(err)
		}
		reconfigure(t, h, fmt.Sprintf("127.0.0.1:%d", d.ports[i]), fmt.Sprintf("127.0.0.1:%d", port))
	}
	began := time.Now()
	for _, h := range d.hosts {
		if err := h.run(); err != nil {
			t.Fatal(err)
		}
	}
	clusterIs(ctx, t, d.hosts, 3, 3)
	t.Logf("together again after %.2f s", time.Since(began).Seconds())
}

// TestReload changes settings of a running host: those that may change do, those
// that need a restart are reported, and an invalid file changes nothing.
func TestReload(t *testing.T) {
	parallel(t)
	d, ctx := start(t, 1)
	h := d.hosts[0]
	names := filepath.Join(t.TempDir(), "hosts")
	reload := func(wanted string) {
		t.Helper()
		before := countLog(t, h, wanted)
		if err := h.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		eventually(ctx, t, 10*time.Second, "log says "+wanted, func() error {
			if countLog(t, h, wanted) == before {
				return errors.New("it does not")
			}
			return nil
		})
	}
	value := func(key string) string {
		t.Helper()
		c, err := h.api.Config(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range c.Entries {
			if e.Key == key {
				return e.Value
			}
		}
		return ""
	}
	reconfigure(t, h, "[mesh]\n", fmt.Sprintf("[mesh]\nnames_file = %q\n", names))
	reconfigure(t, h, "priority = 10\n", "priority = 7\nzone = \"z1\"\n")
	reconfigure(t, h, "slots = 1\n", "slots = 2\n")
	reload("configuration read again")
	if countLog(t, h, "setting needs a restart") != 1 {
		t.Error("the log does not say that worker.slots needs a restart")
	}
	if got := value("worker.slots"); got != "1" {
		t.Errorf("worker.slots is shown as %s, but 1 is in effect", got)
	}
	eventually(ctx, t, 10*time.Second, "zone and priority are announced, names are written", func() error {
		m, err := h.api.Members(ctx)
		if err != nil {
			return err
		}
		if m.Members[0].Zone != "z1" || m.Members[0].Priority != 7 {
			return fmt.Errorf("%+v", m.Members[0])
		}
		text, err := os.ReadFile(names)
		if err != nil {
			return err
		}
		if want := m.Members[0].Addr + " n1 n1.demo.skein\n"; !strings.Contains(string(text), want) {
			return fmt.Errorf("names %q, want %q", text, want)
		}
		return nil
	})
	reconfigure(t, h, "priority = 7", "priority = -1")
	reload("configuration refused")
	if got := value("node.priority"); got != "7" {
		t.Errorf("node.priority is %s after a refused file", got)
	}
	reconfigure(t, h, "priority = -1", "priority = 7")
	reconfigure(t, h, "[log]\n", "[log]\nlevel = \"error\"\n")
	reload("setting changed")
	eventually(ctx, t, 10*time.Second, "events name what changed", func() error {
		var told []string
		for _, e := range eventsOf(ctx, t, h, event.KindConfigReloaded) {
			told = append(told, string(e.Body))
		}
		if want := []string{`{"keys":["node.zone","node.priority","mesh.names_file"]}`, `{"keys":["log.level"]}`}; !slices.Equal(told, want) {
			return fmt.Errorf("%q, want %q", told, want)
		}
		return nil
	})
}

// countLog counts the lines of the daemon's log that have text.
func countLog(t *testing.T, h *host, text string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(h.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(b), text)
}
