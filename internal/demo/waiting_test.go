package demo

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// TestJobWithoutWorker: what no host may ever run is refused, with what keeps each of
// them from it. If it is to wait, status, --follow and doctor say that on every host,
// and it runs once a worker may run it.
func TestJobWithoutWorker(t *testing.T) {
	parallel(t)
	d, ctx := startWith(t, 3, calm)
	holder, err := d.holder(ctx)
	if err != nil {
		t.Fatal(err)
	}
	h := d.other(holder)
	run := func(args ...string) (out, errs string, code int) {
		out, errs, code = d.cli(ctx, h, args...)
		t.Logf("$ skein %s\n%s%s[exit %d]", strings.Join(args, " "), out, errs, code)
		return out, errs, code
	}
	submitted := []string{"job", "run", "--wasm", filepath.Join(bin, "examples", "pi.wasm"), "--iterations", "100"}
	// A host that was heard of a moment ago may yet say what it runs.
	eventually(ctx, t, 30*time.Second, "a zone without hosts is refused", func() error {
		_, errs, code := run(append(submitted, "--zone", "mars", "--key", "mars")...)
		if want := "0 of 3 workers eligible: n1, n2, n3: not in zone mars"; code != 2 || !strings.Contains(errs, want) || !strings.Contains(errs, "--wait-for-worker") {
			return fmt.Errorf("exit %d, %q", code, errs)
		}
		return nil
	})
	for want, args := range map[string][]string{
		"n1, n2, n3: program render is not allowed there": {"job", "run", "--program", "render", "--iterations", "100"},
		"n1, n2, n3: not a worker of user:nobody":         append(submitted, "--permit", "user:nobody"),
		"n1, n2, n3: there is no group crew":              append(submitted, "--permit", "group:crew"),
	} {
		if _, errs, code := run(args...); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %q", want, code, errs)
		}
	}
	out, errs, code := run(append(submitted, "--permit", "group:crew", "--wait-for-worker", "--key", "crew")...)
	if code != 0 {
		t.Fatal(errs)
	}
	id := strings.TrimSpace(out)
	const why, named = "0 of 3 workers eligible: permission 3", "n1, n2, n3: there is no group crew"
	for _, x := range d.hosts {
		eventually(ctx, t, 20*time.Second, "every host says why it waits", func() error {
			j, err := x.api.Job(ctx, id)
			if w := j.Waiting; err != nil || j.Waits != why || w == nil || w.Workers != 3 || w.Reasons[0].Reason != "permission" {
				return fmt.Errorf("%s: %q %+v %w", x.name, j.Waits, j.Waiting, err)
			}
			return nil
		})
	}
	if out, _, _ := run("job", "status", id); !strings.Contains(out, why) || !strings.Contains(out, named) || !strings.Contains(out, "skein group set") {
		t.Errorf("the page does not say why it waits")
	}
	run("job", "status", id, "-o", "json")
	for _, x := range d.hosts {
		e, err := x.api.Explain(ctx, id)
		if err != nil || e.Waits != why || e.Since == nil || e.Holder != cluster.NodeID(holder.name) || len(e.Workers) != 3 {
			t.Errorf("%s explains %+v: %v", x.name, e, err)
		}
		for _, w := range e.Workers {
			if w.Eligible || w.Reason != "permission" {
				t.Errorf("%s explains %+v", x.name, w)
			}
		}
	}
	if out, _, code := run("job", "explain", id); code != 0 || strings.Count(out, "permission  0     0     there is no group crew") != 3 {
		t.Errorf("the page does not explain it")
	}
	if out, _, _ := run("doctor"); !strings.Contains(out, named) {
		t.Errorf("doctor does not say why it waits")
	}

	name := filepath.Join(t.TempDir(), "follow")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	follow := exec.CommandContext(ctx, d.o.Exe, "job", "status", "--follow", id, "--socket", filepath.Join(h.dir, "sock"))
	follow.Stderr = file
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	says := func(want string) string {
		t.Helper()
		var text []byte
		eventually(ctx, t, 20*time.Second, "--follow says "+want, func() (err error) {
			if text, err = os.ReadFile(name); err == nil && !strings.Contains(string(text), want) {
				err = fmt.Errorf("it says %s", text)
			}
			return err
		})
		return string(text)
	}
	says("waits: " + why + "\nskein: permission: " + named)
	group := func(members ...string) {
		t.Helper()
		if _, err := h.api.SetGroup(ctx, "crew", members); err != nil {
			t.Fatal(err)
		}
	}
	group("uid:12345")
	says("permission: n1, n2, n3: not in group crew")
	group("node:n2")
	err = follow.Wait()
	text := says("completed")
	t.Logf("$ skein job status --follow %s\n%s", id, text)
	if err != nil || strings.Count(text, "waits: ") != 2 {
		t.Errorf("--follow ended with %v, or said not twice why it waits", err)
	}
	eventually(ctx, t, 10*time.Second, "it is over on this host", func() error {
		j, err := h.api.Job(ctx, id)
		if err == nil && (j.State != job.Completed || j.Waits != "" || j.Waiting != nil) {
			err = errors.New(string(j.State) + " " + j.Waits)
		}
		return err
	})
}
