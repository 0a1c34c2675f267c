package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// TestMoreTimeAndCheckpoints: on real hosts a program that asks for 1e9 s without progress gets nothing,
// and one that gets on has half its timeout more and goes on beyond the timeout; the log
// says both, and the job is done without another attempt. What a chunk saved is on another
// host as well, where the next attempt goes on from it once the host that ran it is gone.
func TestMoreTimeAndCheckpoints(t *testing.T) {
	parallel(t)
	slow := script(t, "slow", `case $SKEIN_CHUNK_ID in
0) echo "skein-extend 1e9 I like it here" >&2; sleep 3;;
1) echo "skein-progress 1" >&2; echo "skein-extend 1e9 the last frame is large" >&2; sleep 10;;
esac
`+answer)
	saves := script(t, "saves", `if [ ! -e "$SKEIN_IN/.checkpoint" ]; then
echo "skein-progress 7" >&2; echo seven >"$SKEIN_OUT/.checkpoint"; echo "skein-checkpoint" >&2; sleep 1000; exit 1
fi
[ "$(cat "$SKEIN_IN/.checkpoint")" = seven ] || exit 1
`+answer)
	d, ctx := startWith(t, 3, environ("SKEIN_EXEC_PROGRAMS=slow="+slow+",saves="+saves))
	sub := submit(ctx, t, d.hosts[0], job.Spec{
		Key: "slow", Executor: job.ExecutorExec, Program: "slow", Iterations: 20, Chunk: 10, Attempts: 1,
		TimeoutSeconds: 8, Policy: job.Policy{HardTimeoutSeconds: 600},
	})
	until(ctx, t, "the job to be done", func() bool {
		j, err := d.hosts[1].api.Job(ctx, string(sub.Job))
		if err == nil && j.State != job.Completed && j.State.Final() {
			t.Fatalf("%s: %s", j.State, j.Reason)
		}
		return err == nil && j.State == job.Completed
	})
	eventually(ctx, t, time.Minute, "the log to say what was answered", func() error {
		got := make(map[int]event.ChunkExtended)
		err := d.hosts[2].api.Events(ctx, api.EventQuery{Kind: string(event.KindChunkExtended)}, api.FollowOptions{}, func(e api.Event) error {
			var b event.ChunkExtended
			if err := json.Unmarshal(e.Body, &b); err != nil {
				return err
			}
			got[b.Chunk] = b
			return nil
		})
		if err != nil {
			return err
		}
		denied, granted := got[0], got[1]
		if denied.Seconds != 0 || denied.Denied != "it has shown no progress" || denied.Reason != "I like it here" ||
			granted.Seconds != 4 || granted.AskedSeconds != 1e9 || granted.Denied != "" || granted.Reason != "the last frame is large" {
			return fmt.Errorf("%+v", got)
		}
		return nil
	})
	goesOn(ctx, t, d)
}

// goesOn has a chunk save how far it is, and kills the host that runs it.
func goesOn(ctx context.Context, t *testing.T, d *demo) {
	sub := submit(ctx, t, d.hosts[0], job.Spec{
		Key: "saves", Executor: job.ExecutorExec, Program: "saves", Iterations: 10, Chunk: 10, Attempts: 1, Policy: job.Policy{Checkpoint: true},
	})
	var saved event.ChunkCheckpointed
	eventually(ctx, t, time.Minute, "the log to say that a chunk saved", func() error {
		err := d.hosts[0].api.Events(ctx, api.EventQuery{Kind: string(event.KindChunkSaved)}, api.FollowOptions{}, func(e api.Event) error {
			return json.Unmarshal(e.Body, &saved)
		})
		if err == nil && saved.Job == "" {
			err = errors.New("it has no such event")
		}
		return err
	})
	if saved.Job != sub.Job || saved.Done != 7 || saved.Size != int64(len("seven\n")) || saved.Attempt != 1 {
		t.Fatalf("%+v", saved)
	}
	var runs, other *host
	for _, h := range d.hosts {
		if h.name == string(saved.Worker) {
			runs = h
		} else {
			other = h
		}
	}
	on := func(h *host) bool {
		_, err := os.Stat(filepath.Join(h.stateDir(), "outputs", saved.Hash.String()))
		return err == nil
	}
	until(ctx, t, "another host to have it", func() bool {
		return on(runs) && slices.ContainsFunc(d.hosts, func(h *host) bool { return h != runs && on(h) })
	})
	if err := runs.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-runs.done
	until(ctx, t, "the job to be done from there", func() bool {
		j, err := other.api.Job(ctx, string(sub.Job))
		if err == nil && j.State != job.Completed && j.State.Final() {
			t.Fatalf("%s: %s", j.State, j.Reason)
		}
		return err == nil && j.State == job.Completed
	})
	until(ctx, t, "the checkpoint to be removed", func() bool {
		return !slices.ContainsFunc(d.hosts, func(h *host) bool { return h != runs && on(h) })
	})
}
