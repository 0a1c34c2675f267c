package scaleout

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/skein-project/skein/api"
)

// TestDifferences: one bit that is another is found, wherever it is.
func TestDifferences(t *testing.T) {
	same := func() (told, api.Job, api.Job) {
		pi := func() api.Summary { return api.Summary{N: 100, Mean: 3.14, Std: new(1.64), Min: 0, Max: 4} }
		job := func() api.Job {
			return api.Job{
				Chunks: api.ChunkCounts{Total: 10, Accepted: 10}, Iterations: api.IterationCounts{Total: 100, Accepted: 100}, Aggregates: map[string]api.Summary{"pi": pi()},
			}
		}
		return told{n: 100, mean: 3.14, std: 1.64, min: 0, max: 4, sound: true, rows: 10, outside: 7, chunks: 100}, job(), job()
	}
	if d := differences(same()); len(d) > 0 {
		t.Fatalf("of the same: %v", d)
	}
	for what, change := range map[string]func(*told, *api.Job, *api.Job){
		"mean":        func(t *told, _, _ *api.Job) { t.mean = math.Nextafter(t.mean, 4) },
		"std":         func(t *told, _, _ *api.Job) { t.std = math.Nextafter(t.std, 4) },
		"min":         func(t *told, _, _ *api.Job) { t.min = math.Copysign(0, -1) },
		"max":         func(t *told, _, _ *api.Job) { t.max = math.Nextafter(t.max, 5) },
		"samples":     func(t *told, _, _ *api.Job) { t.n++ },
		"rows of":     func(t *told, _, _ *api.Job) { t.rows-- },
		"in its":      func(t *told, _, _ *api.Job) { t.chunks-- },
		"result_hash": func(t *told, _, _ *api.Job) { t.sound = false },
		"of which":    func(t *told, _, _ *api.Job) { t.damaged = 1 },
		"the cluster": func(_ *told, j, _ *api.Job) {
			s := j.Aggregates["pi"]
			s.Mean = math.Nextafter(s.Mean, 4)
			j.Aggregates["pi"] = s
		},
		"alone": func(_ *told, _, j *api.Job) { j.Iterations.Accepted-- },
	} {
		table, j, alone := same()
		change(&table, &j, &alone)
		if d := strings.Join(differences(table, j, alone), "; "); !strings.Contains(d, what) {
			t.Errorf("another %s: %q", what, d)
		}
	}
}

// TestMissing: what there is not is named with the command that installs it.
func TestMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Chdir(t.TempDir()) // out of the sources, where there may be a Centrifugo
	err := missing()
	var e *MissingError
	if !errors.As(err, &e) {
		t.Fatalf("without any program: %v", err)
	}
	if !strings.Contains(e.Error(), "redis-server") || !strings.HasPrefix(e.Hint(), "sudo apt-get install --no-install-recommends redis-server") {
		t.Errorf("%s\n%s", e, e.Hint())
	}
	if !strings.Contains(e.Error(), "centrifugo") || !strings.Contains(e.Hint(), "make bin/tools/centrifugo") || !strings.Contains(e.Hint(), "releases") {
		t.Errorf("%s\n%s", e, e.Hint())
	}
}
