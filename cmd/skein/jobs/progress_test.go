package jobs

import (
	"bytes"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

func TestBar(t *testing.T) {
	j := sampleJob(job.Running, 420)
	for columns, want := range map[int]string{
		200: "[############..................]  42%  420/1k it  1.25M/s  eta 12s  pi 3.142 ± 0.080",
		80:  "[##########...............]  42%  420/1k it  1.25M/s  eta 12s  pi 3.142 ± 0.080",
		40:  "42%  420/1k it  1.25M/s  eta 12s  pi 3…",
	} {
		got := barLine(j, "", columns)
		if got != want || len([]rune(got)) >= columns {
			t.Errorf("%d columns:\n%s, want\n%s", columns, got, want)
		}
	}
	if got := barLine(j, "no such", 200); strings.Contains(got, "±") {
		t.Errorf("unknown metric: %s", got)
	}
	done := sampleJob(job.Completed, 1000)
	if got := barLine(done, "pi", 200); !strings.Contains(got, "[##############################] 100%") || !strings.Contains(got, "completed in 42s") {
		t.Errorf("done: %s", got)
	}
}

// TestProgressOnTerminal rewrites one line and speaks above it.
func TestProgressOnTerminal(t *testing.T) {
	var out bytes.Buffer
	a := &cli.App{Terminal: cli.Terminal{Err: &out, ErrWidth: 100}}
	p := newProgress(a, "")
	p.update(sampleJob(job.Running, 100))
	now := time.Unix(1_700_000_000, 0)
	for range 45 { // a try each second
		p.lost(&api.UnreachableError{Target: "/s", Err: syscall.ECONNREFUSED}, now)
		now = now.Add(time.Second)
	}
	j := sampleJob(job.Running, 200)
	j.Node, j.Holder = "n2", "n3"
	p.update(j)
	p.end()
	text := out.String()
	for _, want := range []string{
		"\r[###", "\x1b[K", "\r\x1b[Kskein: waiting for the daemon: daemon unreachable at /s: connection refused\n",
		"skein: reconnected to n2\n", "skein: holder is now n3\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
	for _, again := range []string{"10s", "20s", "40s"} {
		if want := "skein: waiting for the daemon for " + again + "; the job goes on without it: at another host, `skein job status --follow jx`\n"; strings.Count(text, want) != 1 {
			t.Errorf("%q lacks %q", text, want)
		}
	}
	if strings.Count(text, "waiting") != 4 || !strings.HasSuffix(text, "\n") {
		t.Errorf("%q", text)
	}
}

// sampleJob is a job of 1000 iterations as the API shows it.
func sampleJob(state job.State, accepted uint64) api.Job {
	j := api.Job{
		ID: "jx", State: state, ElapsedSeconds: 42.5, Holder: "n1", Term: 42,
		Iterations: api.IterationCounts{Total: 1000, Accepted: accepted},
		Aggregates: map[string]api.Summary{"pi": api.Summarise(job.Metric{N: accepted, Mean: 3.14159, M2: 2.7 * float64(accepted), Min: 0, Max: 4})},
	}
	if !state.Final() {
		j.RatePerSecond, j.ETASeconds = new(1.25e6), new(12.0)
	}
	return j
}

// Names and metrics are a user's, or a program's: what a terminal would obey does
// not come through.
func TestNoControlCharacters(t *testing.T) {
	var out bytes.Buffer
	a := &cli.App{Terminal: cli.Terminal{Out: &out, Err: &out, ErrWidth: 80}}
	j := sampleJob(job.Failed, 500)
	const evil = "e\x1b]0;x\a\u009b2J\r\nroot"
	j.Name, j.Reason, j.Warning = evil, evil, evil
	j.Aggregates = map[string]api.Summary{evil: j.Aggregates["pi"]}
	jobPage(a, &out, j, true)
	for _, width := range []int{0, 80} { // lines, and a bar
		a.ErrWidth = width
		p := newProgress(a, "")
		p.update(j)
		p.clear()
	}
	text := strings.NewReplacer("\r", "", "\x1b[K", "", "\n", "").Replace(out.String())
	if strings.ContainsAny(text, "\x1b\a\u009b") || strings.Contains(out.String(), "\nroot") || !strings.Contains(text, "root") {
		t.Errorf("%q", out.String())
	}
}

// A job that waits says why when it begins to, and when that changes; the page
// says it of each worker, with what to do.
func TestProgressOfWaiting(t *testing.T) {
	var out bytes.Buffer
	a := &cli.App{Terminal: cli.Terminal{Err: &out}}
	p := newProgress(a, "")
	j := sampleJob(job.Pending, 0)
	j.Attempts, j.Aggregates, j.Failures = api.AttemptCounts{}, nil, nil
	p.update(j)
	mars := api.WaitReason{Reason: "zone", Text: "not in zone mars", Workers: 2, Examples: []cluster.NodeID{"n1", "n2"}}
	j.Waits, j.Waiting = "0 of 2 workers eligible: zone 2", &api.Waiting{Workers: 2, Hint: "move one there", Reasons: []api.WaitReason{mars}}
	p.update(j)
	p.update(j)
	lost := j
	lost.Waits, lost.Waiting = "", nil // the holder is not reached
	p.update(lost)
	p.update(j)
	mars.Text = "not in zone mars or venus" // the reason is the same, what it says is not
	j.Waiting = &api.Waiting{Workers: 2, Hint: "move one there", Reasons: []api.WaitReason{mars}}
	p.update(j)
	j.Waits, j.Waiting = "for an operator, 2 chunks given up", &api.Waiting{Reasons: []api.WaitReason{{Reason: "operator", Text: "for an operator, 2 chunks given up"}}}
	p.update(j)
	j.State, j.Waits, j.Waiting, j.Chunks.Assigned = job.Running, "", nil, 1
	p.update(j)
	j.Warning = "no such metric"
	p.update(j)
	p.update(j)
	var said []string
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "skein: ") {
			said = append(said, strings.TrimSpace(line))
		}
	}
	id := present.Short(j.ID)
	want := []string{
		"skein: " + id + " waits: 0 of 2 workers eligible: zone 2", "skein: zone: n1, n2: not in zone mars", "skein: hint: move one there",
		"skein: " + id + " waits: 0 of 2 workers eligible: zone 2", "skein: zone: n1, n2: not in zone mars or venus", "skein: hint: move one there",
		"skein: " + id + " waits: for an operator, 2 chunks given up",
		"skein: warning: " + id + ": no such metric",
	}
	if !slices.Equal(said, want) {
		t.Errorf("said\n%s\nwant\n%s", strings.Join(said, "\n"), strings.Join(want, "\n"))
	}
	gone := api.WaitReason{Reason: "gone", Text: "dead", Workers: 1, Examples: []cluster.NodeID{"n1"}}
	j.State, j.Waits, j.Waiting = job.Queued, "0 of 1 worker eligible: gone 1", &api.Waiting{Since: j.SubmittedAt, Hint: "look", Reasons: []api.WaitReason{gone}}
	out.Reset()
	jobPage(a, &out, j, false)
	for _, want := range []string{"  waits       0 of 1 worker eligible: gone 1\n", "  since       ", "              gone: n1: dead\n", "  hint        look\n", "  warning     no such metric\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the page lacks %q:\n%s", want, out.String())
		}
	}
}
