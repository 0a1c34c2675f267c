package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/flow"
)

// workflowFile writes a workflow of examples/sweep; work is how many paths each price
// takes.
func workflowFile(t *testing.T, work int) string {
	t.Helper()
	wasm := filepath.Join(bin, "examples", "sweep.wasm")
	text := fmt.Sprintf(`name = "sweep"
params.volatilities = { type = "list", default = [0.1, 0.2, 0.3, 0.4] }
[[step]]
name = "probe"
role = "setup"
each = [0.2]
job = { wasm = %[1]q, iterations = 1000, chunk = 500 }
inputs = { barrier = 0.8, strike = 1 }
outputs = { mean = "metric:price.mean" }
[[step]]
name = "price"
each = "${params.volatilities}"
max_parallel = 2
job = { wasm = %[1]q, iterations = %[2]d, chunk = %[3]d }
inputs = { barrier = 0.8, strike = 1 }
outputs = { mean = "metric:price.mean" }
retry = { times = 1 }
[[step]]
name = "bad"
job = { wasm = %[1]q, iterations = 1, attempts = 1 }
on_failure = "ignore"
[[step]]
name = "alarm"
after_failed = ["bad"]
job = { wasm = %[1]q, iterations = 1 }
inputs = { means = [1] }
[[step]]
name = "report"
after = ["price"]
when = "all(price.mean, # > 0) and probe.mean[0] > 0"
job = { wasm = %[1]q, iterations = 1 }
inputs = { means = "${price.mean}" }
outputs = { best = "metric:best.mean", highest = "metric:highest.mean", refine = "provider:refine" }
provider = { wasm = %[1]q }
[[step]]
name = "refine"
after = ["report"]
each = "${report.refine}"
job = { wasm = %[1]q, iterations = 1000, chunk = 500 }
inputs = { barrier = 0.8, strike = 1 }
outputs = { mean = "metric:price.mean" }
[[step]]
name = "never"
after = ["report"]
when = "report.best == 17"
job = { wasm = %[1]q, iterations = 1 }
[[step]]
name = "clean"
role = "teardown"
job = { wasm = %[1]q, iterations = 1 }
inputs = { means = [1] }
`, wasm, work, work/4)
	path := filepath.Join(t.TempDir(), "sweep.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ofRun is what came out of a run: states, tries and outputs.
func ofRun(w api.Workflow) string {
	out := string(w.State)
	for _, s := range w.Steps {
		out += fmt.Sprintf(" %s:%s", s.Name, s.State)
		for _, in := range s.Instances {
			b, _ := json.Marshal(in.Outputs)
			out += fmt.Sprintf("/%s%s", in.State, b)
		}
	}
	return out
}

// runEnds follows a run at a host until it has ended.
func runEnds(ctx context.Context, t *testing.T, h *host, id string) (w api.Workflow) {
	t.Helper()
	eventually(ctx, t, 5*time.Minute, "the run ends", func() (err error) {
		if w, err = h.api.Workflow(ctx, id); err == nil && !w.State.Final() {
			err = fmt.Errorf("%s is %s", h.name, ofRun(w))
		}
		return err
	})
	return w
}

// TestWorkflow runs a workflow on three hosts, and again while its holder is killed once
// and again: every host says the same of both, and the outputs are the same to the bit.
func TestWorkflow(t *testing.T) {
	parallel(t)
	d, ctx := start(t, 3)
	first, err := d.holder(ctx)
	if err != nil {
		t.Fatal(err)
	}
	h := d.other(first)
	const want = "partial probe:completed/completed"
	file := workflowFile(t, 40_000)
	run := func(code int, args ...string) (out, errs string) {
		t.Helper()
		out, errs, got := d.cli(ctx, h, args...)
		t.Logf("$ skein %s\n%s%s[exit %d]", strings.Join(args, " "), out, errs, got)
		if got != code {
			t.Fatalf("exit %d, want %d", got, code)
		}
		return out, errs
	}
	run(0, "workflow", "run", file, "--dry-run")
	out, _ := run(0, "workflow", "run", file, "--key", "calm")
	calm := strings.TrimSpace(out)
	if again, _ := run(0, "workflow", "run", file, "--key", "calm"); strings.TrimSpace(again) != calm {
		t.Error("the same key is another run")
	}
	if _, errs := run(1, "workflow", "run", file, "--key", "calm", "--param", "volatilities=[0.5]"); !strings.Contains(errs, "key was used") {
		t.Error("another workflow under the same key is taken")
	}
	if out, errs := run(8, "workflow", "status", calm, "--follow"); !strings.Contains(errs, "report [") || !strings.Contains(out, "never") {
		t.Error("who follows it is not told of its steps")
	}
	whole := runEnds(ctx, t, h, calm)
	if got := ofRun(whole); !strings.HasPrefix(got, want) {
		t.Fatalf("%s", got)
	}
	refined := whole.Steps[5]
	if refined.Name != "refine" || len(refined.Instances) != 2 || fmt.Sprint(refined.Instances[1].Item) != "0.44000000000000006" || whole.Steps[4].Instances[0].Provider == "" {
		t.Errorf("what a provider left is not what the next step is for: %+v of %+v", refined, whole.Steps[4])
	}
	graph, _ := run(0, "workflow", "graph", calm)
	if !strings.Contains(graph, "price[4] [completed]") || !strings.Contains(graph, "(ignored)") {
		t.Errorf("graph:\n%s", graph)
	}
	run(0, "workflow", "graph", calm, "--as", "mermaid")
	run(0, "workflow", "outputs", calm)
	run(0, "workflow", "status", calm)
	if out, _ := run(0, "workflow", "status", calm, "--history"); !strings.Contains(out, "ended clean completed") {
		t.Errorf("its history:\n%s", out)
	}
	run(0, "workflow", "ls")

	// The same again with more work in it, and a holder that is killed meanwhile.
	long := workflowFile(t, 600_000)
	out, _ = run(0, "workflow", "run", long, "--key", "storm")
	storm := strings.TrimSpace(out)
	for kill := range 2 {
		holder, err := d.holder(ctx)
		if err != nil {
			t.Fatal(err)
		}
		eventually(ctx, t, 3*time.Minute, "something of it runs", func() error {
			w, err := d.other(holder).api.Workflow(ctx, storm)
			if err != nil {
				return err
			}
			for _, s := range w.Steps {
				if s.Name == "price" && s.Counts[flow.Running] > 0 && s.Counts[flow.Completed] >= kill || w.State.Final() {
					return nil
				}
			}
			return fmt.Errorf("%s", ofRun(w))
		})
		if err := holder.cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		ends(ctx, t, holder, 10*time.Second)
		if h = d.other(holder); h == holder {
			t.Fatal("no other host")
		}
		if err := holder.run(); err != nil {
			t.Fatal(err)
		}
		if _, err := d.holder(ctx); err != nil {
			t.Fatal(err)
		}
	}
	stormy := runEnds(ctx, t, h, storm)
	out, _ = run(0, "workflow", "run", long, "--key", "sunny")
	sunny := runEnds(ctx, t, h, strings.TrimSpace(out))
	if got, want := ofRun(stormy), ofRun(sunny); got != want {
		t.Errorf("with holders killed\n%s\nwithout\n%s", got, want)
	}
	for _, x := range d.hosts {
		eventually(ctx, t, time.Minute, "every host says the same", func() error {
			w, err := x.api.Workflow(ctx, storm)
			if err == nil && ofRun(w) != ofRun(stormy) {
				err = fmt.Errorf("%s: %s", x.name, ofRun(w))
			}
			return err
		})
	}
	allEqual(ctx, t, d)

	// What is completed does not run again; with a step it does, and all behind it.
	run(4, "workflow", "retry", storm, "--from", "nix")
	run(0, "workflow", "retry", storm, "--from", "report")
	again := runEnds(ctx, t, h, storm)
	for i, s := range again.Steps {
		before := stormy.Steps[i]
		for k, in := range s.Instances {
			same := in.Try == before.Instances[k].Try
			if wantSame := s.Name != "report" && s.Name != "refine" && s.Name != "bad" && s.Name != "clean"; same != wantSame {
				t.Errorf("step %s[%d]: try %d after the retry, %d before", s.Name, k, in.Try, before.Instances[k].Try)
			}
		}
	}

	// A run that is stopped cleans up.
	out, _ = run(0, "workflow", "run", workflowFile(t, 400_000_000), "--key", "stopped")
	stopped := strings.TrimSpace(out)
	eventually(ctx, t, time.Minute, "something of it runs", func() error {
		w, err := h.api.Workflow(ctx, stopped)
		for _, s := range w.Steps {
			if s.Name == "price" && s.Counts[flow.Running] > 0 {
				return nil
			}
		}
		return fmt.Errorf("%s %w", ofRun(w), err)
	})
	run(0, "workflow", "stop", stopped, "--reason", "enough")
	w := runEnds(ctx, t, h, stopped)
	if w.State != flow.Cancelled || w.StopReason != "enough" || w.Steps[len(w.Steps)-1].State != flow.Completed {
		t.Errorf("a run that was stopped: %s", ofRun(w))
	}
	cycle := filepath.Join(t.TempDir(), "cycle.toml")
	text := "[[step]]\nname = \"a\"\nafter = [\"b\"]\njob = { program = \"x\", iterations = 1 }\n[[step]]\nname = \"b\"\nafter = [\"a\"]\njob = { program = \"x\", iterations = 1 }\n"
	if err := os.WriteFile(cycle, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs := run(2, "workflow", "run", cycle); !strings.Contains(errs, "a -> b -> a") {
		t.Errorf("the cycle is not named")
	}
}
