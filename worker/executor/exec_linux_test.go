package executor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/worker/artefact"
	"github.com/skein-project/skein/worker/runner"
	"github.com/skein-project/skein/worker/words"
)

// program is a host program of the tests; mark tells its processes from others.
func program(mode, mark string) int {
	again := func(mode string, attr *syscall.SysProcAttr) *exec.Cmd {
		cmd := exec.Command("/proc/self/exe", "program", mode, mark)
		cmd.SysProcAttr = attr
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		return cmd
	}
	n, _ := strconv.ParseUint(os.Getenv("SKEIN_ITERATIONS"), 10, 64)
	answer := func(metrics map[string]float64) int {
		r := job.ChunkResult{Iterations: n, Metrics: map[string]job.Metric{}}
		for name, v := range metrics {
			r.Metrics[name] = job.Metric{N: n, Mean: v, Min: v, Max: v}
		}
		b, err := json.Marshal(r)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s\n", b)
		return 0
	}
	switch mode {
	case "sight":
		return answer(sight())
	case "sleep":
		select {}
	case "ready": // and sleep
		fmt.Fprintln(os.Stderr, runner.ProgressMark+"1")
		select {}
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		fmt.Fprintln(os.Stderr, runner.ProgressMark+"1")
		select {}
	case "forks":
		for range 5 {
			again("sleep", nil)
		}
		return answer(map[string]float64{"x": 1})
	case "away": // two sessions away, and gone
		again("sleep", &syscall.SysProcAttr{Setsid: true})
		return 0
	case "escapes":
		_ = again("away", &syscall.SysProcAttr{Setsid: true}).Wait() // its end is not of interest
		fmt.Fprintln(os.Stderr, runner.ProgressMark+"1")
		select {}
	case "flood":
		for b := bytes.Repeat([]byte("x"), 1<<20); ; {
			_, _ = os.Stdout.Write(b) // until it is killed
		}
	case "one file":
		signal.Ignore(syscall.SIGXFSZ)
		f, err := os.Create("big")
		for b := make([]byte, 1<<20); err == nil; {
			_, err = f.Write(b)
		}
		fmt.Fprintln(os.Stderr, err)
		return 5
	case "many files":
		for i := 0; ; i++ {
			_ = os.WriteFile("f"+strconv.Itoa(i), make([]byte, 256<<10), 0o600) // until it is killed
		}
	case "locked": // a directory that cannot be listed
		_ = os.MkdirAll("a/b", 0o700)
		_ = os.Chmod("a", 0)
		return answer(map[string]float64{"x": 1})
	case "closes":
		os.Stdout.Close()
		return 0
	case "garbage":
		fmt.Println("hello")
	case "nan":
		fmt.Printf(`{"iterations":%d,"metrics":{"x":{"n":%d,"mean":NaN,"m2":0,"min":0,"max":0}}}`, n, n)
	case "wrong n":
		n++
		return answer(map[string]float64{"x": 1})
	case "fails":
		fmt.Fprintln(os.Stderr, "no licence found")
		return 3
	case "killed":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // does not return
	case "greedy":
		var all [][]byte
		for range 1 << 14 {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			all = append(all, b)
		}
		return len(all)
	case "asks":
		fmt.Fprintf(os.Stderr, "%s5\n%s1e9 the last frame is large\n", runner.ProgressMark, runner.ExtendMark)
		return answer(map[string]float64{"x": 1})
	case "progress":
		for i := range n {
			fmt.Fprintf(os.Stderr, "%s%d\nand words\n", runner.ProgressMark, i+1)
		}
		return answer(map[string]float64{"x": 1})
	}
	return 0
}

// sight is what a program sees of its host.
func sight() map[string]float64 {
	out := map[string]float64{"environment": float64(len(os.Environ()))}
	for _, name := range []string{"SKEIN_ITERATIONS", "SKEIN_SEED_OFFSET", "SKEIN_CHUNK_ID", "SKEIN_SEED"} {
		v, err := strconv.ParseFloat(os.Getenv(name), 64)
		if err != nil {
			v = -1
		}
		out[strings.ToLower(name)] = v
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	for _, fd := range fds {
		// Go's own, and the directory that is being read.
		to, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if err == nil && !strings.HasPrefix(to, "anon_inode:") && !strings.HasPrefix(to, "/sys/fs/cgroup/") && !strings.HasSuffix(to, "/fd") {
			out["descriptors"]++
		}
	}
	config, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err == nil || config != "" {
		out["config"] = float64(len(config))
	}
	if entries, err := os.ReadDir("."); err == nil {
		out["files"] = float64(len(entries))
	}
	if wd, err := os.Getwd(); err == nil && wd == os.Getenv("HOME") {
		out["home"] = 1
	}
	if status, err := os.ReadFile("/proc/self/status"); err == nil && strings.Contains(string(status), "NoNewPrivs:\t1") {
		out["no_new_privs"] = 1
	}
	if signal.Ignored(syscall.SIGTERM) {
		out["deaf"] = 1
	}
	return out
}

// execHost is an executor whose programs are the modes of program.
type execHost struct {
	*Exec
	store *artefact.Store
	mark  string
}

func newExecHost(t *testing.T, change func(*ExecOptions)) execHost {
	t.Helper()
	store, err := artefact.New(artefact.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := execHost{store: store, mark: "mark-" + strings.ReplaceAll(t.TempDir(), "/", "-")}
	o := ExecOptions{
		Artefacts: store, ScratchDir: filepath.Join(t.TempDir(), "scratch"), Logger: zerolog.Nop(), Grace: 200 * time.Millisecond,
		Programs: map[string][]string{}, MemoryBytes: job.MaxMemoryBytes,
	}
	for _, mode := range []string{
		"sight", "sleep", "ready", "deaf", "forks", "escapes", "flood", "one file", "many files", "locked", "closes", "garbage", "nan", "wrong n",
		"fails", "killed", "greedy", "progress", "asks",
	} {
		o.Programs[strings.ReplaceAll(mode, " ", "_")] = []string{exe, "program", mode, h.mark}
	}
	o.Programs["absent"] = []string{"/nonexistent/program"}
	if change != nil {
		change(&o)
	}
	if h.Exec, err = NewExec(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left := h.processes(); len(left) > 0 {
			t.Errorf("processes left behind: %v", left)
		}
		if dirs, _ := os.ReadDir(o.ScratchDir); len(dirs) > 0 {
			t.Errorf("scratch directories left behind: %v", dirs)
		}
	})
	return h
}

// processes lists the living processes of the host's programs.
func (h execHost) processes() []string {
	var out []string
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil && strings.Contains(string(b), h.mark) {
			out = append(out, filepath.Base(filepath.Dir(name))+strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	return out
}

func (h execHost) task(mode string) Task {
	spec := job.Spec{
		Key: "k", Executor: job.ExecutorExec, Program: strings.ReplaceAll(mode, " ", "_"),
		Iterations: 100, Chunk: 10, TimeoutSeconds: 60, Seed: 42,
		MemoryBytes: job.MaxMemoryBytes, // a race detector in the program takes a lot
	}.WithDefaults()
	return Task{Attempt: job.Attempt{Job: "j", Chunk: 3, Number: 1}, Spec: spec}
}

func TestProgramSeesItsContract(t *testing.T) {
	t.Setenv("SKEIN_SECRET", "of the host")
	leak, err := syscall.Open("/dev/null", syscall.O_RDONLY, 0) // as a daemon's parent may leave one open
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(leak)
	h := newExecHost(t, nil)
	task := h.task("sight")
	if task.Spec.Config, err = h.store.Put(bytes.NewReader([]byte(`{"a":1}`)), 100); err != nil {
		t.Fatal(err)
	}
	r, err := h.Execute(t.Context(), 0, task)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{
		"skein_iterations": 10, "skein_seed_offset": 30, "skein_chunk_id": 3, "skein_seed": 42, "config": 7, "files": 0, "home": 1,
		"environment": 8, "descriptors": 3, "no_new_privs": 1,
	} {
		if got := r.Metrics[name].Mean; got != want {
			t.Errorf("program saw %s %v, want %v", name, got, want)
		}
	}
	if _, ok := r.Metrics["deaf"]; ok {
		t.Error("the program was started with SIGTERM ignored")
	}
}

func TestBadPrograms(t *testing.T) {
	h := newExecHost(t, func(o *ExecOptions) { o.ScratchBytes = 4 << 20 })
	for mode, want := range map[string]string{
		"flood": "wrote more than 1048576 bytes to standard output",
		// Whoever looks first ends it: the kernel at the file, or the host at the directory.
		"one file":   "exit code 5; standard error: write big: file too large|wrote more than 4194304 bytes to its directory",
		"many files": "wrote more than 4194304 bytes to its directory",
		"closes":     "wrote no result to standard output",
		"garbage":    "standard output is not a result",
		"nan":        "a number is NaN or infinite",
		"wrong n":    "11 iterations, the chunk has 10",
		"fails":      "exit code 3; standard error: no licence found",
		"killed":     "ended by signal: killed",
	} {
		t.Run(mode, func(t *testing.T) {
			_, err := h.Execute(t.Context(), 0, h.task(mode))
			if err == nil || !slices.ContainsFunc(strings.Split(want, "|"), func(w string) bool { return strings.Contains(err.Error(), w) }) {
				t.Errorf("%v, want %q", err, want)
			}
			if ClassOf(err) != job.FailedWork {
				t.Errorf("class %q: the program is to blame", ClassOf(err))
			}
		})
	}
	for mode, want := range map[string]string{"other": "does not allow program", "absent": "program does not start"} {
		_, err := h.Execute(t.Context(), 0, h.task(mode))
		if err == nil || !strings.Contains(err.Error(), want) || ClassOf(err) != job.FailedInfra {
			t.Errorf("%s: %v of class %q, want %q of class infra", mode, err, ClassOf(err), want)
		}
	}
}

// TestWordsOfPrograms: what a program writes to standard error is heard whole.
func TestWordsOfPrograms(t *testing.T) {
	h := newExecHost(t, nil)
	for mode, want := range map[string]string{"fails": "no licence found\n", "progress": runner.ProgressMark + "10\nand words\n"} {
		task := h.task(mode)
		task.Words = &words.Words{}
		_, _ = h.Execute(t.Context(), 0, task) // how it ends others test
		if s := task.Words.Said(); !strings.HasSuffix(string(s.Text()), want) || s.Left > 0 {
			t.Errorf("%s: %q", mode, s.Text())
		}
	}
}

// TestProgramsAsk: a program that wants more time is heard, after what it has done.
func TestProgramsAsk(t *testing.T) {
	h := newExecHost(t, nil)
	task := h.task("asks")
	var done uint64
	var asked []runner.Ask
	task.Report = func(n uint64) { done = n }
	task.Ask = func(a runner.Ask) {
		if done != 5 {
			t.Errorf("asked before the progress, which is %d", done)
		}
		asked = append(asked, a)
	}
	if _, err := h.Execute(t.Context(), 0, task); err != nil || len(asked) != 1 || asked[0] != (runner.Ask{Seconds: 1e9, Reason: "the last frame is large"}) {
		t.Errorf("asked for %+v, %v", asked, err)
	}
}

// A program that needs more memory than the job asked for ends, and its host
// does not notice.
func TestGreedyProgram(t *testing.T) {
	h := newExecHost(t, nil)
	task := h.task("greedy")
	task.Spec.MemoryBytes = 256 << 20
	if _, err := h.Execute(t.Context(), 0, task); err == nil || ClassOf(err) != job.FailedWork {
		t.Errorf("%v, want the end of the program", err)
	}
}

// Processes that a program leaves behind end with it, and the result counts.
func TestForksEnd(t *testing.T) {
	h := newExecHost(t, nil)
	for _, mode := range []string{"forks", "locked"} {
		if _, err := h.Execute(t.Context(), 0, h.task(mode)); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

// A cancel or the chunk's limit ends a program that does not listen, and what
// left its group and session, within the grace and little more.
func TestStopEndsAll(t *testing.T) {
	h := newExecHost(t, nil)
	for _, mode := range []string{"ready", "deaf", "escapes"} {
		t.Run(mode, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			task := h.task(mode)
			var cancelled time.Time
			task.Report = func(uint64) {
				cancelled = time.Now()
				cancel()
			}
			_, err := h.Execute(ctx, 0, task)
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("%v, want cancelled", err)
			}
			t.Logf("ended %s after the cancel", time.Since(cancelled))
			if left := h.processes(); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
	task := h.task("deaf")
	task.Spec.TimeoutSeconds = 0.5
	if _, err := h.Execute(t.Context(), 0, task); err == nil || !strings.Contains(err.Error(), "ran longer than the limit of 500ms") {
		t.Errorf("%v, want the limit", err)
	}
}

func TestProgramReportsProgress(t *testing.T) {
	h := newExecHost(t, nil)
	task := h.task("progress")
	var last uint64
	task.Report = func(done uint64) { last = max(last, done) }
	if _, err := h.Execute(t.Context(), 0, task); err != nil || last != 10 {
		t.Errorf("%v, progress %d, want 10", err, last)
	}
}

// With a cgroup at hand each attempt has its own, and none is left.
func TestProgramsInCgroups(t *testing.T) {
	parent := cgroupForTests(t)
	h := newExecHost(t, func(o *ExecOptions) { o.Cgroup = parent })
	for _, mode := range []string{"forks", "sight"} {
		if _, err := h.Execute(t.Context(), 0, h.task(mode)); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	task := h.task("escapes")
	seen := 0
	task.Report = func(uint64) {
		groups, _ := filepath.Glob(filepath.Join(parent, "skein-chunk-*"))
		seen = len(groups)
		cancel()
	}
	if _, err := h.Execute(ctx, 0, task); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want cancelled", err)
	}
	if seen != 1 {
		t.Errorf("%d groups while a program ran, want 1", seen)
	}
	if left, _ := filepath.Glob(filepath.Join(parent, "skein-chunk-*")); len(left) > 0 {
		t.Errorf("groups left: %v", left)
	}
}

func TestExecOptions(t *testing.T) {
	store, err := artefact.New(artefact.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	good := func() ExecOptions {
		return ExecOptions{Artefacts: store, ScratchDir: t.TempDir(), Programs: map[string][]string{"a": {"/bin/true"}}, Logger: zerolog.Nop()}
	}
	for name, change := range map[string]func(*ExecOptions){
		"no store":      func(o *ExecOptions) { o.Artefacts = nil },
		"relative path": func(o *ExecOptions) { o.Programs["a"] = []string{"true"} },
		"no path":       func(o *ExecOptions) { o.Programs["a"] = nil },
		"name":          func(o *ExecOptions) { o.Programs["A"] = []string{"/bin/true"} },
		"scratch":       func(o *ExecOptions) { o.ScratchDir = "scratch" },
		"root":          func(o *ExecOptions) { o.User = "root" },
		"nobody at all": func(o *ExecOptions) { o.User = "skein-does-not-exist" },
		"no cgroup":     func(o *ExecOptions) { o.Cgroup = t.TempDir() },
	} {
		o := good()
		change(&o)
		if _, err := NewExec(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	e, err := NewExec(good())
	if err != nil || !slices.Equal(e.Needs(), []string{"exec:a"}) {
		t.Errorf("%v, needs %v", err, e.Needs())
	}
}
