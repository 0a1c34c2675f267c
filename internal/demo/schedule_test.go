package demo

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/flow"
)

// TestSchedule: a schedule begins its run though the holder is killed before its time; all
// hosts say the same of it.
func TestSchedule(t *testing.T) {
	parallel(t)
	d, ctx := start(t, 3)
	holder, err := d.holder(ctx)
	if err != nil {
		t.Fatal(err)
	}
	h := d.other(holder)
	run := func(code int, args ...string) (out, errs string) {
		t.Helper()
		out, errs, got := d.cli(ctx, h, args...)
		t.Logf("$ skein %s\n%s%s[exit %d]", strings.Join(args, " "), out, errs, got)
		if got != code {
			t.Fatalf("exit %d, want %d", got, code)
		}
		return out, errs
	}
	file := filepath.Join("..", "..", "examples", "nightly", "nightly.toml")
	run(2, "schedule", "set", file, "--cron", "0 0 30 2 *")
	run(2, "schedule", "set", file, "--cron", "30 2 * * *", "--zone", "Mars/Olympus")
	run(0, "schedule", "set", file, "--cron", "30 2 * * *", "--zone", "Europe/Berlin", "--dry-run")
	run(4, "schedule", "status", "nightly")
	run(0, "schedule", "set", file, "--cron", "* * * * *", "--zone", "Europe/Berlin", "--missed", "all", "--overlap", "queue")
	out, _ := run(0, "schedule", "run", "nightly", "--key", "k")
	if again, _ := run(0, "schedule", "run", "nightly", "--key", "k"); again != out {
		t.Error("the same key is another run")
	}
	if w := runEnds(ctx, t, h, strings.TrimSpace(out)); w.State != flow.Completed {
		t.Errorf("a run by hand: %s", ofRun(w))
	}
	if err := holder.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ends(ctx, t, holder, 10*time.Second)
	if err := holder.run(); err != nil {
		t.Fatal(err)
	}
	var s api.Schedule
	eventually(ctx, t, 3*time.Minute, "its time comes", func() error {
		list, err := h.api.Schedules(ctx)
		if err != nil || len(list.Schedules) != 1 {
			return fmt.Errorf("%+v %w", list.Schedules, err)
		}
		if s = list.Schedules[0]; len(s.Last) == 0 {
			return fmt.Errorf("nothing came of it, next %v", s.Next)
		}
		return nil
	})
	run(0, "schedule", "pause", "nightly")
	run(0, "schedule", "ls")
	run(0, "schedule", "status", "nightly")
	for _, at := range s.Last {
		if w := runEnds(ctx, t, h, string(at.Run)); w.State != flow.Completed {
			t.Errorf("run of %s: %s", at.At, ofRun(w))
		}
	}
	for _, x := range d.hosts {
		eventually(ctx, t, time.Minute, "every host says the same", func() error {
			list, err := x.api.Schedules(ctx)
			if err == nil && (len(list.Schedules) != 1 || !list.Schedules[0].Paused || list.Schedules[0].OpenRuns != 0) {
				err = fmt.Errorf("%s: %+v", x.name, list.Schedules)
			}
			return err
		})
	}
	allEqual(ctx, t, d)
	run(0, "schedule", "rm", "nightly")
	run(4, "schedule", "status", "nightly")
}
