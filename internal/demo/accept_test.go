package demo

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
)

// TestHostsAccept: two friends' hosts and a stranger's. The stranger's job, which
// permits everybody's workers, is refused by the friends' hosts, as everybody can
// see; one that narrows while chunks run finishes these and gets no others; and a
// host that accepts the stranger after a reload runs what waits.
func TestHostsAccept(t *testing.T) {
	parallel(t)
	d, ctx := startWith(t, 3, calm)
	me := fmt.Sprintf("uid:%d", os.Getuid())
	slots := make(map[string]string) // what stands in a host's configuration
	reload := func(h *host, accept string) {
		t.Helper()
		old := cmp.Or(slots[h.name], "slots = 1\n")
		slots[h.name] = "slots = 1\n" + accept
		reconfigure(t, h, old, slots[h.name])
		if err := h.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	list := func() (w api.Workers, err error) {
		raw, err := d.hosts[0].api.Raw(ctx, "/v1/workers")
		if err == nil {
			err = json.Unmarshal(raw, &w)
		}
		return w, err
	}
	friends := "accept = \"user\"\naccept_names = [\"user:ann\", \"user:bob\"]\n"
	accepts := func(want string) {
		t.Helper()
		eventually(ctx, t, 30*time.Second, "hosts accept "+want, func() error {
			w, err := list()
			got := ""
			for _, x := range w.Workers {
				got += string(x.Node) + " " + x.Accept + ", "
			}
			if got != want {
				return fmt.Errorf("%s %w", got, err)
			}
			return nil
		})
	}
	reload(d.hosts[0], friends)
	reload(d.hosts[1], friends)
	accepts("n1 user, n2 user, n3 public, ")

	run := func(args ...string) (out, errs string, code int) {
		out, errs, code = d.cli(ctx, d.hosts[0], args...)
		t.Logf("$ skein %s\n%s%s[exit %d]", strings.Join(args, " "), out, errs, code)
		return out, errs, code
	}
	submit := func(key string, iterations, chunk int) string {
		t.Helper()
		out, errs, code := run("job", "run", "--wasm", filepath.Join(bin, "examples", "pi.wasm"), "--iterations", fmt.Sprint(iterations),
			"--chunk", fmt.Sprint(chunk), "--key", key, "--wait-for-worker")
		if code != 0 {
			t.Fatal(errs)
		}
		return strings.TrimSpace(out)
	}
	workers := func(id string) map[string]int {
		t.Helper()
		j, err := d.hosts[0].api.Job(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]int{}
		for _, w := range j.Workers {
			out[string(w.Node)] = w.Accepted
		}
		return out
	}
	done := func(id string) {
		t.Helper()
		eventually(ctx, t, 5*time.Minute, "the job is done", func() error {
			j, err := d.hosts[0].api.Job(ctx, id)
			if err == nil && j.State != job.Completed {
				err = errors.New(string(j.State))
			}
			return err
		})
	}
	id := submit("public", 3000, 100)
	// explained tells on another host than the holder what keeps each worker from a job,
	// and how many of its chunks they have.
	explained := func(id string) (reasons string, has int) {
		t.Helper()
		e, err := d.hosts[1].api.Explain(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range e.Workers {
			r := w.Reason
			if w.Eligible {
				r = "eligible" // busy or not
			}
			reasons += string(w.Node) + " " + r + ", "
			has += w.Assigned
		}
		return reasons, has
	}
	if got, _ := explained(id); got != "" && got != "n1 not_accepted, n2 not_accepted, n3 eligible, " { // "": it is over already
		t.Errorf("explained is %s", got)
	}
	done(id)
	if w := workers(id); w["n1"]+w["n2"] > 0 || w["n3"] == 0 {
		t.Errorf("a stranger's chunks ran at %v", w)
	}

	// The last host narrows while a long chunk runs: it ends, what waits stays.
	id = submit("long", 1_200_000_000, 600_000_000)
	runsAt := func() (n int) {
		w, err := list()
		if err != nil {
			return 0
		}
		for _, x := range w.Workers {
			n += x.Assigned
		}
		return n
	}
	eventually(ctx, t, 30*time.Second, "chunks run", func() error {
		if runsAt() == 0 {
			return errors.New("none does")
		}
		return nil
	})
	run("job", "explain", id)
	if got, has := explained(id); got != "n1 not_accepted, n2 not_accepted, n3 eligible, " || has == 0 {
		t.Errorf("while chunks run, explained is %s, %d run", got, has)
	}
	reload(d.hosts[2], "accept = \"none\"\n")
	accepts("n1 user, n2 user, n3 none, ")
	run("job", "explain", id)
	if got, _ := explained(id); got != "n1 not_accepted, n2 not_accepted, n3 not_accepted, " {
		t.Errorf("after n3 has narrowed, explained is %s", got)
	}
	const short = "0 of 3 workers eligible: not_accepted 3"
	why := "n1, n2, n3: its host does not run the jobs of " + me
	eventually(ctx, t, 3*time.Minute, "what runs ends, and the job waits", func() error {
		j, err := d.hosts[1].api.Job(ctx, id)
		if err == nil && (j.Waits != short || runsAt() > 0) {
			err = fmt.Errorf("waits %q, %d chunks run, %d accepted", j.Waits, runsAt(), j.Chunks.Accepted)
		}
		return err
	})
	before := workers(id)
	if before["n3"] == 0 {
		t.Error("what ran when the host narrowed did not count")
	}
	if out, _, _ := run("job", "explain", id); strings.Count(out, "not_accepted  0") != 3 {
		t.Error("the page does not explain why it waits")
	}
	for _, args := range [][]string{{"job", "status", id}, {"workers"}, {"doctor"}} {
		out, _, _ := run(args...)
		if args[0] != "workers" && !strings.Contains(out, why) {
			t.Errorf("%v does not say why it waits", args)
		}
	}
	reload(d.hosts[1], fmt.Sprintf("accept = \"user\"\naccept_names = [%q]\n", me))
	done(id)
	if w := workers(id); w["n1"] > 0 || w["n2"] == 0 || w["n3"] != before["n3"] {
		t.Errorf("then at %v, before at %v", w, before)
	}
}
