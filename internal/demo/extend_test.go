package demo

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// TestMoreTime: on real hosts a program that asks for 1e9 s without progress gets nothing,
// and one that gets on has half its timeout more and goes on beyond the timeout; the log
// says both, and the job is done without another attempt.
func TestMoreTime(t *testing.T) {
	parallel(t)
	slow := script(t, "slow", `case $SKEIN_CHUNK_ID in
0) echo "skein-extend 1e9 I like it here" >&2; sleep 3;;
1) echo "skein-progress 1" >&2; echo "skein-extend 1e9 the last frame is large" >&2; sleep 10;;
esac
`+answer)
	d, ctx := startWith(t, 3, environ("SKEIN_EXEC_PROGRAMS=slow="+slow))
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
}
