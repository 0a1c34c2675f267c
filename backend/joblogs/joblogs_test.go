package joblogs

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/worker/words"
)

const theJob = job.ID("jaaaaaaaaaaaaaaaaaaaaaaaaaa")

// noJobs is a log in which there is no job: what is followed ends with what runs.
type noJobs struct{}

func (noJobs) View(f func(*state.State)) { f(state.New()) }

type told struct {
	mu    sync.Mutex
	lines []api.JobLog
}

func (r *told) take(l api.JobLog) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, l)
	return nil
}

func (r *told) text(chunk int) (text string, last api.JobLog) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, l := range r.lines {
		if l.Chunk == chunk {
			if l.More != (text != "" || last.Running) {
				text += fmt.Sprintf("[line %d: more is %t]", i, l.More)
			}
			text, last = text+l.Text, l
		}
	}
	return text, last
}

func newLogs(t *testing.T) (*Logs, *words.Ring) {
	ring, err := words.Open(words.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return New(Options{Self: "n1", Log: noJobs{}, Ring: ring}), ring
}

func at(chunk int) job.Attempt { return job.Attempt{Job: theJob, Chunk: chunk, Number: 1} }

// TestServe: what ended comes from the files, what runs from memory, each once, and of
// those that have a result nothing where failures are asked for.
func TestServe(t *testing.T) {
	l, ring := newLogs(t)
	for chunk, failed := range []string{"exit code 3", ""} {
		fmt.Fprintf(ring.Begin(at(chunk)), "chunk %d\n\xff", chunk)
		ring.End(at(chunk), true, failed)
	}
	fmt.Fprint(ring.Begin(at(2)), "runs")
	for name, c := range map[string]struct {
		req  forward.JobLogsWanted
		want string
	}{
		"all":     {forward.JobLogsWanted{}, "0:chunk 0\n\uFFFD 1:chunk 1\n\uFFFD 2:runs"},
		"failed":  {forward.JobLogsWanted{Failed: true}, "0:chunk 0\n\uFFFD"},
		"one":     {forward.JobLogsWanted{Chunk: new(1)}, "1:chunk 1\n\uFFFD"},
		"attempt": {forward.JobLogsWanted{Attempt: 2}, ""},
	} {
		var got told
		c.req.Job = theJob
		if err := l.ServeLogs(t.Context(), forward.Asker{}, c.req, got.take); err != nil {
			t.Fatal(err)
		}
		var parts []string
		for _, x := range got.lines {
			if x.Worker != "n1" || x.Running != (x.Chunk == 2) || x.More {
				t.Errorf("%s: %+v", name, x)
			}
			parts = append(parts, fmt.Sprintf("%d:%s", x.Chunk, x.Text))
		}
		if text := strings.Join(parts, " "); text != c.want {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
}

// TestServeFollowed: a follower gets all that is added, and how it ended, and the stream
// ends when nothing runs any more.
func TestServeFollowed(t *testing.T) {
	l, ring := newLogs(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	a, b := ring.Begin(at(0)), ring.Begin(at(1))
	ring.Begin(at(2))
	fmt.Fprint(a, "one ")
	var got told
	done := make(chan error, 1)
	go func() {
		done <- l.ServeLogs(ctx, forward.Asker{}, forward.JobLogsWanted{Job: theJob, Follow: true}, got.take)
	}()
	until := func(what string, ok func() bool) {
		t.Helper()
		for !ok() {
			if ctx.Err() != nil {
				t.Fatalf("waited too long: %s", what)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	until("the first words", func() bool { text, _ := got.text(0); return text == "one " })
	fmt.Fprint(a, "two ")
	until("more", func() bool { text, _ := got.text(0); return text == "one two " })
	fmt.Fprint(a, "three")
	ring.End(at(0), true, "exit code 3")
	fmt.Fprint(b, strings.Repeat("x", words.First+10))
	ring.End(at(1), true, "")
	ring.End(at(2), true, "said nothing")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if text, last := got.text(0); text != "one two three" || last.Running || last.Error != "exit code 3" {
		t.Errorf("%q, at last %+v", text, last)
	}
	if text, last := got.text(1); len(text) != words.First+10 || last.Running || last.Error != "" {
		t.Errorf("%d bytes, at last %+v", len(text), last)
	}
	if text, last := got.text(2); text != "" || last.Error != "said nothing" {
		t.Errorf("%q, at last %+v", text, last)
	}
}
