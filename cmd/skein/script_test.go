package main

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/cmd/skein/cli"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		// skein is the real command line over a daemon that is not there.
		"skein": func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			code := execute(ctx, os.Args[1:], cli.Terminal{
				In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Environ(), OutWidth: width(os.Stdout), ErrWidth: width(os.Stderr),
			}, fakeDeps())
			stop()
			os.Exit(code)
		},
	})
}

type fakeKey struct{}

// TestScripts runs testdata/*.txtar against a fake cluster behind the real
// server. SKEIN_UPDATE=1 rewrites the expected texts.
func TestScripts(t *testing.T) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("if the texts are meant to change: SKEIN_UPDATE=1 go test ./cmd/skein -run Scripts")
		}
	})
	testscript.Run(t, testscript.Params{
		Dir:           "testdata",
		UpdateScripts: os.Getenv("SKEIN_UPDATE") == "1",
		Setup: func(env *testscript.Env) error {
			dir, err := os.MkdirTemp("", "sk") //nolint:usetesting // short enough for a socket's address
			if err != nil {
				return err
			}
			f := newFakeCluster(dir + "/s")
			env.Values[fakeKey{}] = f
			env.Setenv("SKEIN_SOCKET", f.socket)
			env.Setenv("SKEIN_CONFIG", env.WorkDir+"/skein.toml")
			env.Setenv("SKEIN_NODE_NAME", "n2")
			env.Setenv("SKEIN_TIMEOUT", "1m")         // a machine on which much is tested at once
			env.Setenv("GORACE", "atexit_sleep_ms=0") // else each command takes a second to end
			env.Defer(func() {
				_ = f.stop()          // its own tests look at that
				_ = os.RemoveAll(dir) // best effort
			})
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"cluster": clusterCommand,
			"exits":   exitsCommand,
		},
	})
}

// clusterCommand changes the fake: start, stop, degrade, lose-holder, unready, alone, forbid-debug,
// allow-debug,
// refuse N, accept CHUNK, finish STATE, await-follower, await-reader, event KIND,
// compact, log damaged or differs.
func clusterCommand(ts *testscript.TestScript, neg bool, args []string) {
	f, ok := ts.Value(fakeKey{}).(*fakeCluster)
	if !ok || neg || len(args) == 0 {
		ts.Fatalf("usage: cluster what [arg]")
	}
	arg := ""
	if len(args) > 1 {
		arg = args[1]
	}
	switch args[0] {
	case "start":
		ts.Check(f.start())
	case "stop":
		ts.Check(f.stop())
	case "degrade":
		f.set(func() { f.state = api.StateDegraded })
	case "lose-holder":
		f.set(func() { f.holder = "" })
	case "forbid-debug", "allow-debug":
		f.private.Store(args[0] == "forbid-debug")
	case "alone":
		f.set(func() { f.alone = true })
	case "unready":
		f.set(func() { f.ready = false })
	case "refuse":
		n, err := strconv.Atoi(arg)
		ts.Check(err)
		f.set(func() { f.notYet = n })
	case "finish":
		f.set(func() {
			for id, j := range f.jobs {
				if j.State == job.Running {
					done := fakeJob(id, j.Name, job.State(arg), 1000)
					done.Spec = j.Spec
					if arg == "partial" {
						done.Reason = "2 chunks given up"
					}
					f.jobs[id] = done
				}
			}
		})
	case "accept":
		n, err := strconv.Atoi(arg)
		ts.Check(err)
		f.set(func() {
			m := job.Metric{N: 10, Mean: 3.2, M2: 1.25, Min: 0, Max: 4}
			f.addEvent("n1", event.KindChunkAccepted, fakeNow.Add(time.Duration(len(f.events))*time.Second), event.ChunkAccepted{
				Job: jobGood, Chunk: n, Attempt: 1, Worker: "n2", Seconds: 1.5,
				Result: job.ChunkResult{Iterations: 10, Metrics: map[string]job.Metric{"pi": m}},
			})
		})
	case "log":
		f.set(func() { f.logOf = arg })
	case "compact":
		f.set(func() { f.oldest = event.Cursor{{Node: "n1", Inc: 1}: 1} })
	case "event":
		f.set(func() { f.addEvent("n1", event.Kind(arg), fakeNow, map[string]string{"from": "script"}) })
	case "await-follower", "await-reader":
		seen := make(chan struct{})
		f.set(func() {
			if args[0] == "await-reader" {
				f.reading = seen
			} else {
				f.watching, f.asked = seen, 0
			}
		})
		for deadline := time.Now().Add(20 * time.Second); ; f.set(func() {}) { // wakes a reader that has all
			select {
			case <-seen:
				return
			case <-time.After(20 * time.Millisecond):
				if time.Now().After(deadline) {
					ts.Fatalf("nobody follows")
				}
			}
		}
	default:
		ts.Fatalf("unknown: cluster %s", args[0])
	}
}

// exitsCommand runs a command and checks its exit code: exits 3 skein status.
func exitsCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE command args...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := err.(interface{ ExitCode() int })
		if !ok {
			ts.Fatalf("%s: %v", strings.Join(args[1:], " "), err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("%s: exit %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

// inProcess runs a command line against a started fake and returns what it
// wrote.
func inProcess(t *testing.T, f *fakeCluster, term cli.Terminal, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	term.In, term.Out, term.Err = strings.NewReader(""), &out, &errs
	term.Env = append([]string{"SKEIN_SOCKET=" + f.socket, "SKEIN_CONFIG=/nonexistent/skein.toml", "SKEIN_NODE_NAME=n2"}, term.Env...)
	code = execute(t.Context(), args, term, fakeDeps())
	return code, out.String(), errs.String()
}
