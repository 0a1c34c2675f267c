package demo

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
)

// TestRender runs the example that draws a film. When what a step left is on no disk any
// more, and what needs it is to run again, that step leaves the same again, and no other.
func TestRender(t *testing.T) {
	parallel(t)
	d, ctx := startWith(t, 3, calm)
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "render", "render.toml"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "render.toml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), "../../bin/", bin+"/")), 0o600); err != nil {
		t.Fatal(err)
	}
	h := d.hosts[0]
	run := func(args ...string) string {
		t.Helper()
		out, errs, code := d.cli(ctx, h, args...)
		t.Logf("$ skein %s\n%s%s[exit %d]", strings.Join(args, " "), out, errs, code)
		if code != 0 {
			t.Fatalf("exit %d", code)
		}
		return strings.TrimSpace(out)
	}
	id := run("workflow", "run", file, "--key", "film", "--param", "frames=[0,1]", "--param", "width=64")
	first := runEnds(ctx, t, h, id)
	if first.State != flow.Completed || len(first.Steps) != 2 || len(first.Steps[0].Instances) != 2 {
		t.Fatalf("%s", ofRun(first))
	}
	film := func(job string) string {
		to := t.TempDir()
		run("job", "outputs", job, "--to", to)
		names, err := filepath.Glob(filepath.Join(to, "*", "film.ppm"))
		if err != nil || len(names) != 1 {
			t.Fatalf("%v %v", names, err)
		}
		text, err := os.ReadFile(names[0])
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	made := film(string(first.Steps[1].Instances[0].Job))
	if !strings.HasPrefix(made, "P6") || len(made) < 2*64*240*3 {
		t.Fatalf("a film of %d bytes", len(made))
	}

	drawn := func(frame int) (out []cluster.Hash) {
		list, err := h.api.JobOutputs(ctx, string(first.Steps[0].Instances[frame].Job))
		if err != nil || len(list.Outputs) != 6 {
			t.Fatalf("%+v %v", list, err)
		}
		for _, f := range list.Outputs {
			out = append(out, f.Hash)
		}
		return out
	}
	zero, one := drawn(0), drawn(1)
	lose := func() (left int) {
		for _, x := range d.hosts {
			for _, f := range one {
				if slices.Contains(zero, f) {
					continue // both frames have such a piece
				}
				for _, dir := range []string{"outputs", "artefacts"} {
					if os.Remove(filepath.Join(x.stateDir(), dir, f.String())) == nil {
						left++
					}
				}
			}
		}
		return left
	}
	// Hosts still fetch copies, until each that is to have one has it.
	eventually(ctx, t, time.Minute, "copies of what was drawn", func() error {
		for _, x := range d.hosts {
			if !copied(t, x, d.hosts) {
				return fmt.Errorf("what %s stored is nowhere else", x.name)
			}
		}
		return nil
	})
	if lose() == 0 {
		t.Fatal("nothing was lost")
	}
	run("workflow", "retry", id, "--from", "film")
	again := runEnds(ctx, t, h, id)
	if again.State != flow.Completed || ofRun(again) != ofRun(first) {
		t.Fatalf("%s, before it was %s", ofRun(again), ofRun(first))
	}
	for k, in := range again.Steps[0].Instances {
		if want := 1 + k; in.Try != want {
			t.Errorf("draw[%d]: try %d, want %d", k, in.Try, want)
		}
	}
	list, err := h.api.Jobs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	lost := first.Steps[0].Instances[1].Job
	if !slices.ContainsFunc(list.Jobs, func(j api.Job) bool { return j.Spec.RetryOf == lost && j.State == job.Completed }) {
		t.Errorf("no job computed chunks of %s again, and those alone: %+v", lost, list.Jobs)
	}
	if film(string(again.Steps[1].Instances[0].Job)) != made {
		t.Error("another film")
	}
}
