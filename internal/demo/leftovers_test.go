package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// copied reports whether all the outputs of a host are on another one as well.
func copied(t *testing.T, of *host, others []*host) bool {
	t.Helper()
	names, err := os.ReadDir(filepath.Join(of.stateDir(), "outputs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range names {
		if !slices.ContainsFunc(others, func(h *host) bool {
			_, err := os.Stat(filepath.Join(h.stateDir(), "outputs", e.Name()))
			return h != of && err == nil
		}) {
			return false
		}
	}
	return len(names) > 0
}

// TestWhatJobsLeave: what attempts wrote is told on every host while they run and when
// they failed, and of failures when the host that made them is gone. So are the files
// that chunks left: every host reads them, and gives them to other jobs.
func TestWhatJobsLeave(t *testing.T) {
	parallel(t)
	talks := script(t, "talks", "echo chunk $SKEIN_CHUNK_ID says hello >&2\ncase $SKEIN_CHUNK_ID in 0) sleep 1000;; 1) echo out of luck >&2; exit 3;; esac\n"+answer)
	paints := script(t, "paints", `printf "tile %s\n" "$SKEIN_CHUNK_ID" >"$SKEIN_OUT/tile"`)
	merges := script(t, "merges", `cat "$SKEIN_IN"/tile.* >"$SKEIN_OUT/picture"`)
	d, ctx := startWith(t, 3, func(d *demo) {
		calm(d)
		environ("SKEIN_EXEC_PROGRAMS=talks="+talks+",paints="+paints+",merges="+merges, "SKEIN_WORKER_SLOTS=4")(d)
	})
	sub := submit(ctx, t, d.hosts[0], job.Spec{
		Key: "talks", Executor: job.ExecutorExec, Program: "talks", Iterations: 4, Chunk: 1, Attempts: 1, Policy: job.Policy{Logs: job.LogsAll},
	})
	id := string(sub.Job)
	logs := func(h *host, args ...string) string {
		out, errs, code := d.cli(ctx, h, append([]string{"job", "logs", id}, args...)...)
		if code != 0 {
			return fmt.Sprintf("exit %d: %s", code, errs)
		}
		return out
	}
	for _, h := range d.hosts {
		eventually(ctx, t, time.Minute, "all words on "+h.name, func() error {
			all, failed := logs(h), logs(h, "--failed")
			if strings.Count(all, "says hello") != 4 || !strings.Contains(all, "running <==\nchunk 0 says hello\n") ||
				strings.Count(failed, "out of luck") != 1 || strings.Count(failed, "says hello") != 1 {
				return fmt.Errorf("it tells\n%s\nand of failures\n%s", all, failed)
			}
			return nil
		})
	}
	painted := submit(ctx, t, d.hosts[1], job.Spec{
		Key: "paints", Executor: job.ExecutorExec, Program: "paints", Iterations: 6, Chunk: 1,
		Policy: job.Policy{Result: job.ResultNone, Outputs: []string{"tile"}},
	})
	completed(ctx, t, d, string(painted.Job))
	j, err := d.hosts[0].api.Job(ctx, id)
	if err != nil || len(j.Failures) != 1 {
		t.Fatalf("%+v, %v", j.Failures, err)
	}
	gone := j.Failures[0]
	var dead, left *host
	for _, h := range d.hosts {
		if cluster.NodeID(h.name) == gone.Worker {
			dead = h
		} else {
			left = h
		}
	}
	// Another host has the copy, or will have it within seconds.
	eventually(ctx, t, time.Minute, "a copy elsewhere", func() error {
		if !copied(t, dead, d.hosts) {
			return fmt.Errorf("no other host has what %s stored", dead.name)
		}
		return nil
	})
	if err := dead.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-dead.done
	eventually(ctx, t, time.Minute, "its words are told by others", func() error {
		out := logs(left, "--chunk", fmt.Sprint(gone.Chunk))
		if want := fmt.Sprintf("chunk %d says hello\nout of luck\n", gone.Chunk); !strings.Contains(out, want) || !strings.Contains(out, "its host is gone") {
			return fmt.Errorf("it tells %s", out)
		}
		return nil
	})
	list, err := left.api.JobOutputs(ctx, string(painted.Job))
	if err != nil || list.Sum == nil || list.Sum.Files != 6 || len(list.Outputs) != 6 {
		t.Fatalf("%+v, %v", list, err)
	}
	to, tiles := t.TempDir(), map[string]cluster.Hash{}
	if out, errs, code := d.cli(ctx, left, "job", "outputs", string(painted.Job), "--to", to); code != 0 {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	whole := ""
	for i, f := range list.Outputs {
		text, err := os.ReadFile(filepath.Join(to, fmt.Sprint(i), "tile"))
		if err != nil || f.Chunk != i || string(text) != fmt.Sprintf("tile %d\n", i) {
			t.Errorf("tile %d, which %s made, is %q: %v", i, f.Worker, text, err)
		}
		tiles[fmt.Sprintf("tile.%04d", i)] = f.Hash
		whole += string(text)
	}
	merged := submit(ctx, t, left, job.Spec{
		Key: "merges", Executor: job.ExecutorExec, Program: "merges", Iterations: 1, Chunk: 1,
		Policy: job.Policy{Result: job.ResultNone, Outputs: []string{"picture"}, Files: tiles},
	})
	completed(ctx, t, &demo{hosts: []*host{left}}, string(merged.Job))
	if list, err = left.api.JobOutputs(ctx, string(merged.Job)); err != nil || len(list.Outputs) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	var picture strings.Builder
	if err := left.api.JobOutput(ctx, string(merged.Job), 0, "picture", list.Outputs[0].File, &picture); err != nil || picture.String() != whole {
		t.Errorf("merged to %q: %v", picture.String(), err)
	}
}

// completed waits until a job has completed, with all hosts agreed on it.
func completed(ctx context.Context, t *testing.T, d *demo, id string) {
	t.Helper()
	var sums []job.OutputSum
	for _, h := range d.hosts {
		eventually(ctx, t, time.Minute, "the end of job "+id+" on "+h.name, func() error {
			j, err := h.api.Job(ctx, id)
			if err == nil && (j.State != job.Completed || j.Outputs == nil) {
				err = fmt.Errorf("it is %s: %s, outputs %+v, failures %+v", j.State, j.Reason, j.Outputs, j.Failures)
			}
			if err == nil {
				sums = append(sums, *j.Outputs)
			}
			return err
		})
	}
	if one := slices.Compact(sums); len(one) != 1 {
		t.Errorf("hosts do not agree what job %s left: %+v", id, one)
	}
}
