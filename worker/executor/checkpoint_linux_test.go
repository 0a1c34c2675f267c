package executor

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/worker/words"
)

// TestProgramsSave: what a program saves is stored with how far it was, the next attempt
// finds it, one without it computes the same; near its end a program is told so, and what it
// saves then is stored whenever the last one was.
func TestProgramsSave(t *testing.T) {
	outputs := outputStore(t, 0)
	const result = `echo '{"iterations":10,"metrics":{"x":{"n":10,"mean":1,"m2":0,"min":1,"max":1}}}'`
	scripts := map[string]string{
		"saves": `if [ -e "$SKEIN_IN/.checkpoint" ]; then echo "from $(cat "$SKEIN_IN/.checkpoint")" >&2; ` + result + `; exit; fi
echo skein-progress 4 >&2; echo four >tmp; mv tmp "$SKEIN_OUT/.checkpoint"; echo skein-checkpoint >&2
echo five >tmp; mv tmp "$SKEIN_OUT/.checkpoint"; echo skein-checkpoint >&2; ` + result,
		"warned": `trap 'echo late >tmp; mv tmp "$SKEIN_OUT/.checkpoint"; echo skein-checkpoint >&2; exit 3' USR1
echo early >"$SKEIN_OUT/.checkpoint"; echo skein-checkpoint >&2; while :; do sleep 0.05; done`,
		"link": `ln -s /etc/passwd "$SKEIN_OUT/.checkpoint"; echo skein-checkpoint >&2; ` + result,
		"none": `echo skein-checkpoint >&2; ` + result,
	}
	h := newExecHost(t, func(o *ExecOptions) {
		o.Outputs = outputs
		for name, s := range scripts {
			o.Programs[name] = []string{"/bin/sh", "-c", s}
		}
	})
	run := func(name string, shape func(*Task)) (saved []string, said string, err error) {
		task := h.task(name)
		task.Spec.Checkpoint, task.Words = true, &words.Words{}
		task.Save = func(c job.Checkpoint) {
			b, err := os.ReadFile(outputs.Path(c.Hash))
			if err != nil {
				t.Error(err)
			}
			saved = append(saved, fmt.Sprintf("%s after %d", strings.TrimSpace(string(b)), c.Done))
			task.Resume = &c
		}
		if shape != nil {
			shape(&task)
		}
		_, err = h.Execute(t.Context(), 0, task)
		return saved, string(task.Words.Said().Text()), err
	}
	var last *job.Checkpoint
	saved, said, err := run("saves", func(task *Task) {
		save := task.Save
		task.Save = func(c job.Checkpoint) { last = &c; save(c) }
	})
	if err != nil || len(saved) != 1 || saved[0] != "four after 4" || strings.Contains(said, "from") {
		t.Fatalf("saved %q, said %q: %v", saved, said, err)
	}
	if saved, said, err = run("saves", func(task *Task) { task.Resume = last }); err != nil || len(saved) != 0 || !strings.Contains(said, "from four") {
		t.Errorf("next: saved %q, said %q: %v", saved, said, err)
	}
	gone := &job.Checkpoint{File: job.File{Hash: cluster.Hash{9}, Size: 1}}
	if saved, said, err = run("saves", func(task *Task) { task.Resume = gone }); err != nil || len(saved) != 1 || strings.Contains(said, "from") {
		t.Errorf("without: saved %q, said %q: %v", saved, said, err)
	}
	for _, name := range []string{"link", "none"} {
		if saved, _, err = run(name, nil); err != nil || len(saved) != 0 {
			t.Errorf("%s: saved %q: %v", name, saved, err)
		}
	}
	if saved, _, err = run("warned", func(task *Task) { task.Spec.TimeoutSeconds = 8 }); err == nil || !strings.Contains(err.Error(), "exit code 3") ||
		len(saved) != 2 || saved[1] != "late after 0" {
		t.Errorf("warned before its limit: saved %q: %v", saved, err)
	}
	if saved, _, err = run("warned", func(task *Task) {
		ending := make(chan struct{})
		save, first := task.Save, true
		task.Ending, task.Spec.TimeoutSeconds = ending, 600
		task.Save = func(c job.Checkpoint) {
			if save(c); first {
				close(ending)
			}
			first = false
		}
	}); err == nil || len(saved) != 2 {
		t.Errorf("warned before the end of the host: saved %q: %v", saved, err)
	}
}

// TestWarnings: an attempt is warned before the limit that will end it, and half of its time
// before a short one.
func TestWarnings(t *testing.T) {
	for what, c := range map[string]struct {
		l     limit
		moved bool
		after time.Duration
	}{
		"short": {within(200 * time.Millisecond), false, 100 * time.Millisecond},
		"moved": {limit{time.Millisecond, 300 * time.Millisecond}, true, 150 * time.Millisecond},
		"soft":  {limit{200 * time.Millisecond, time.Hour}, false, 100 * time.Millisecond},
	} {
		began, told := time.Now(), make(chan struct{}, 4)
		stop := c.l.warn(nil, func() bool { return c.moved }, func() { told <- struct{}{} })
		<-told
		if took := time.Since(began); took < c.after {
			t.Errorf("%s: after %s, want %s", what, took, c.after)
		}
		stop()
	}
}
