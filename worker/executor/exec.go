package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/worker/artefact"
	"github.com/skein-project/skein/worker/runner"
)

// Defaults of ExecOptions.
const (
	DefaultScratchBytes = int64(1) << 30
	DefaultProcesses    = 256
	DefaultGrace        = 500 * time.Millisecond
	// execPatience is how long a supervisor may take beyond the grace.
	execPatience = 8 * time.Second
	// pipePatience is how long output is read after all writers should have
	// ended.
	pipePatience = time.Second
)

// ExecOptions configures the exec executor.
type ExecOptions struct {
	// Programs are the only ones that run here: by name, an absolute path and
	// fixed arguments.
	Programs map[string][]string
	// Artefacts supplies configs.
	Artefacts *artefact.Store
	// Outputs stores the files that programs leave; without it jobs with outputs do not
	// run here.
	Outputs *artefact.Store
	// Slots must be that of the Worker.
	Slots int
	// RunnerArgv starts a process that calls runner.Main; default: as of WASM.
	RunnerArgv []string
	// ScratchDir holds a directory for each attempt, empty at its start and
	// removed at its end; those that an earlier process left go at the start.
	ScratchDir string
	// ScratchBytes bounds what an attempt keeps there, and any one file.
	ScratchBytes int64
	// User runs the programs, which takes the rights of root; empty: the
	// daemon's own.
	User string
	// Cgroup is a delegated directory of cgroup v2, in which each attempt gets
	// its own group; empty: none.
	Cgroup string
	// Processes and MemoryBytes bound an attempt; a job may ask for less memory.
	// Without a cgroup the memory is that of each process, and Processes is not
	// enforced.
	Processes   int
	MemoryBytes uint64
	// Grace is the time between SIGTERM and SIGKILL.
	Grace time.Duration
	// FetchTimeout bounds the transfer of a config.
	FetchTimeout time.Duration

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // may be nil
}

// Exec runs programs of the host, each attempt below a supervisor of its own.
type Exec struct {
	opts     ExecOptions
	log      zerolog.Logger
	uid, gid uint32
	groups   *cgroups // nil: none
	ended    *prometheus.CounterVec
}

// NewExec checks o, removes what an earlier process left behind and makes the
// executor.
func NewExec(o ExecOptions) (*Exec, error) {
	if len(o.RunnerArgv) == 0 {
		o.RunnerArgv = []string{"/proc/self/exe", "runner"}
	}
	o.ScratchBytes = cmp.Or(o.ScratchBytes, DefaultScratchBytes)
	o.Processes = cmp.Or(o.Processes, DefaultProcesses)
	o.MemoryBytes = cmp.Or(o.MemoryBytes, DefaultMemoryCap)
	o.Grace = cmp.Or(o.Grace, DefaultGrace)
	o.FetchTimeout = cmp.Or(o.FetchTimeout, DefaultFetchTimeout)
	o.Slots = cmp.Or(o.Slots, runtime.NumCPU())
	switch {
	case o.Artefacts == nil:
		return nil, errors.New("exec executor: no artefact store")
	case !filepath.IsAbs(o.ScratchDir):
		return nil, fmt.Errorf("exec executor: scratch directory %q is not absolute", o.ScratchDir)
	case o.ScratchBytes < 0 || o.Processes < 0 || o.Grace < 0:
		return nil, errors.New("exec executor: a limit is negative")
	}
	for name, argv := range o.Programs {
		if _, err := job.ParseProgramName(name); err != nil {
			return nil, fmt.Errorf("exec executor: %w", err)
		}
		if len(argv) == 0 || !filepath.IsAbs(argv[0]) {
			return nil, fmt.Errorf("exec executor: program %s needs an absolute path", name)
		}
	}
	e := &Exec{
		opts: o, log: o.Logger.With().Str("component", "worker.exec").Logger(),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_exec_runs_total", Help: "Programs that ended, by how.",
		}, []string{"how"}),
	}
	if o.User != "" {
		if err := e.lookUp(o.User); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(o.ScratchDir, 0o711); err != nil { // a program's user passes through it
		return nil, fmt.Errorf("make scratch directory: %w", err)
	}
	old, err := filepath.Glob(filepath.Join(o.ScratchDir, "skein-chunk-*"))
	if err != nil {
		return nil, fmt.Errorf("scratch directory: %w", err)
	}
	for _, dir := range old {
		e.removeScratch(dir)
	}
	if o.Cgroup != "" {
		groups, err := openCgroups(o.Cgroup)
		if err != nil {
			return nil, fmt.Errorf("exec executor: cgroup %s: %w", o.Cgroup, err)
		}
		e.groups = groups
		e.log.Info().Str("cgroup", o.Cgroup).Strs("limits", groups.controllers).Msg("programs run in cgroups")
	}
	return e, registerMetrics(o.Registerer, e.ended)
}

func (e *Exec) lookUp(name string) error {
	u, err := user.Lookup(name)
	if err != nil {
		return fmt.Errorf("exec executor: %w", err)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	switch {
	case err1 != nil || err2 != nil:
		return fmt.Errorf("exec executor: user %s has ids %s and %s, want numbers", name, u.Uid, u.Gid)
	case uid == 0:
		return fmt.Errorf("exec executor: user %s is root, want one without rights", name)
	case os.Geteuid() != 0 && os.Geteuid() != int(uid):
		return fmt.Errorf("exec executor: only root can run programs as %s", name)
	}
	e.uid, e.gid = uint32(uid), uint32(gid)
	return nil
}

// Run implements Executor: each attempt has its own processes, there is nothing
// to keep.
func (e *Exec) Run(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// Needs lists what jobs may ask for here, see job.Spec.Needs.
func (e *Exec) Needs() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(e.opts.Programs)) {
		out = append(out, job.Spec{Executor: job.ExecutorExec, Program: name}.Needs())
	}
	return out
}

// Execute implements Executor.
func (e *Exec) Execute(ctx context.Context, _ int, t Task) (job.ChunkResult, error) {
	var none job.ChunkResult
	argv, ok := e.opts.Programs[t.Spec.Program]
	if !ok {
		e.ended.WithLabelValues("not_allowed").Inc()
		return none, Infra(fmt.Errorf("this host does not allow program %q", t.Spec.Program))
	}
	if t.Spec.MemoryBytes > e.opts.MemoryBytes {
		return none, Infra(fmt.Errorf("the job needs %d bytes of memory, this host allows %d", t.Spec.MemoryBytes, e.opts.MemoryBytes))
	}
	input := ""
	if !t.Spec.Config.IsZero() {
		fetching, cancel := context.WithTimeout(ctx, e.opts.FetchTimeout)
		err := e.opts.Artefacts.Fetch(fetching, t.Spec.Config, nil)
		cancel()
		if err != nil {
			return none, Infra(fmt.Errorf("config: %w", err))
		}
		input = e.opts.Artefacts.Path(t.Spec.Config)
	}
	files, err := e.filesOf(ctx, t.Spec)
	if err != nil {
		return none, Infra(err)
	}
	dir, err := e.scratch()
	if err != nil {
		return none, Infra(err)
	}
	defer e.removeScratch(dir)
	offset, n := t.Spec.ChunkRange(t.Attempt.Chunk)
	setup := runner.Program{
		Path: argv[0], Args: argv[1:], Input: input, UID: e.uid, GID: e.gid,
		Switch: e.opts.User != "" && os.Geteuid() == 0, ScratchBytes: e.opts.ScratchBytes, GraceMillis: e.opts.Grace.Milliseconds(),
		Env: []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=" + dir, "TMPDIR=" + dir,
			"SKEIN_ITERATIONS=" + strconv.FormatUint(n, 10), "SKEIN_SEED_OFFSET=" + strconv.FormatUint(offset, 10),
			"SKEIN_CHUNK_ID=" + strconv.Itoa(t.Attempt.Chunk), "SKEIN_SEED=" + strconv.FormatUint(t.Spec.Seed, 10),
		},
	}
	if err := e.prepareFiles(dir, t.Spec, files, resume(ctx, e.opts.Outputs, t), &setup); err != nil {
		return none, Infra(errors.Join(err, verifyFiles(e.opts.Artefacts, e.opts.Outputs, t.Spec)))
	}
	if e.groups == nil || !e.groups.limits("memory") {
		setup.DataBytes = t.Spec.MemoryBytes
	}
	r := &programRun{e: e, dir: dir, setup: setup, most: limitOf(t.Spec), memory: t.Spec.MemoryBytes, report: t.Report, noResult: t.Spec.Result == job.ResultNone}
	r.stderr.words = t.Words
	r.said.words = t.Words
	r.stderr.ask, r.said.ask = t.Ask, t.Ask
	if t.Spec.Checkpoint && t.Save != nil {
		r.saver = &saver{dir: filepath.Join(dir, outDir), owner: e.owner(), outputs: e.opts.Outputs, tell: t.Save, every: job.CheckpointEvery}
		r.ending = t.Ending
	}
	out, err := r.do(ctx)
	e.ended.WithLabelValues(r.how).Inc()
	if err != nil {
		return none, err
	}
	left, err := Collect(filepath.Join(dir, outDir), t.Spec, t.Spec.AttemptLimit(), e.owner(), e.opts.Outputs)
	if err != nil {
		return none, err
	}
	return finished(t.Spec, out, n, left)
}

// owner is whose files a program makes; negative: the daemon's own.
func (e *Exec) owner() int {
	if e.opts.User != "" && os.Geteuid() == 0 {
		return int(e.uid)
	}
	return -1
}

// filesOf has the files of a job on this disk.
func (e *Exec) filesOf(ctx context.Context, spec job.Spec) ([]runner.InFile, error) {
	if (len(spec.Outputs) > 0 || spec.Checkpoint) && e.opts.Outputs == nil {
		return nil, errNoOutputs
	}
	ctx, cancel := context.WithTimeout(ctx, e.opts.FetchTimeout)
	defer cancel()
	return fetchFiles(ctx, e.opts.Artefacts, e.opts.Outputs, spec, DefaultPatience)
}

// prepareFiles makes the directories of files of a program, and tells it of them.
func (e *Exec) prepareFiles(dir string, spec job.Spec, files, resumed []runner.InFile, setup *runner.Program) error {
	if len(files) > 0 || spec.Checkpoint {
		in := filepath.Join(dir, inDir)
		if err := room(files, e.opts.ScratchBytes); err != nil {
			return err
		}
		size, err := copyFiles(in, files)
		if err != nil {
			return err
		}
		setup.ScratchBytes += size + copyResume(in, resumed)
		setup.Env = append(setup.Env, "SKEIN_IN="+in)
	}
	if len(spec.Outputs) > 0 || spec.Checkpoint {
		out := filepath.Join(dir, outDir)
		err := os.Mkdir(out, 0o700)
		if err == nil && e.owner() >= 0 {
			err = os.Chown(out, int(e.uid), int(e.gid))
		}
		if err != nil {
			return fmt.Errorf("make directory of outputs: %w", err)
		}
		setup.Env = append(setup.Env, "SKEIN_OUT="+out)
	}
	return nil
}

// scratch makes the directory of an attempt.
func (e *Exec) scratch() (string, error) {
	dir, err := os.MkdirTemp(e.opts.ScratchDir, "skein-chunk-")
	if err == nil && e.opts.User != "" && os.Geteuid() == 0 {
		err = os.Chown(dir, int(e.uid), int(e.gid))
	}
	if err != nil {
		return "", fmt.Errorf("make scratch directory: %w", err)
	}
	return dir, nil
}

// removeScratch removes dir, although a program may have locked directories.
func (e *Exec) removeScratch(dir string) {
	if os.RemoveAll(dir) == nil {
		return
	}
	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(name, 0o700) //nolint:gosec // what cannot be changed stays, and is told below
		}
		return nil
	})
	if err := os.RemoveAll(dir); err != nil {
		e.log.Warn().Err(err).Msg("scratch directory of a chunk not removed")
	}
}

// programRun is one attempt.
type programRun struct {
	e      *Exec
	dir    string
	setup  runner.Program
	most   limit
	memory uint64
	report func(uint64)

	how    string // ended, for the metric
	stdout boundedBuffer
	stderr progressTail

	noResult bool         // standard output is words as well:
	said     progressTail // it goes here

	saver  *saver // nil: there are no checkpoints
	ending <-chan struct{}
}

// do runs the program and returns its standard output.
func (r *programRun) do(ctx context.Context) ([]byte, error) {
	r.how = "failed"
	timed, told, stop := r.most.apply(ctx, "ran longer than the limit of %s", r.report)
	defer stop()
	group, err := r.e.group(r.memory)
	if err != nil {
		return nil, Infra(err)
	}
	defer r.e.removeGroup(group)
	r.stdout.limit, r.stdout.full = job.MaxResultBytes, make(chan struct{})
	r.stderr.report, r.said.report = told, told
	var done atomic.Uint64
	if r.saver != nil {
		counted := func(n uint64) { done.Store(n); told(n) }
		r.stderr.report, r.said.report = counted, counted
		save := func() { r.saver.save(done.Load()) }
		r.stderr.save, r.said.save = save, save
	}
	cmd, orders, report, err := r.start(group)
	if err != nil {
		return nil, Infra(err)
	}
	if r.saver != nil {
		defer r.most.warn(r.ending, func() bool { return done.Load() > 0 }, func() {
			r.saver.due()
			_, _ = orders.Write([]byte{runner.OrderSave}) // it may have ended
		})()
	}
	end, err := r.await(timed, cmd, orders, report)
	switch oom := group.killedForMemory(); {
	case r.stdout.over:
		r.how = "output"
		return nil, job.ErrTooMuchOutput
	case err != nil:
		return nil, Infra(err)
	case end.Failed != "":
		return nil, Infra(fmt.Errorf("program does not start: %s", end.Failed))
	case end.Scratch:
		r.how = "scratch"
		return nil, r.say("wrote more than %d bytes to its directory", r.setup.ScratchBytes)
	case ctx.Err() != nil:
		r.how = "cancelled"
		return nil, fmt.Errorf("%w: %w", errStopped, ctx.Err())
	case timed.Err() != nil:
		r.how = "timeout"
		return nil, context.Cause(timed)
	case oom:
		r.how = "memory"
		return nil, r.say("ran out of memory, the limit is %d bytes", r.memory)
	case end.Signal != "":
		r.how = "signal"
		return nil, r.say("ended by signal: %s", end.Signal)
	case end.Exit != 0:
		r.how = "exit"
		return nil, r.say("exit code %d", end.Exit)
	}
	r.how = "ok"
	return r.stdout.b, nil
}

// say adds the program's last words.
func (r *programRun) say(format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	if said := r.stderr.LastWords(); said != "" {
		what += "; standard error: " + said
	} else if said := r.said.LastWords(); said != "" {
		what += "; standard output: " + said
	}
	return errors.New(what)
}

// start starts the supervisor and gives it its setup.
func (r *programRun) start(group *cgroup) (cmd *exec.Cmd, orders io.WriteCloser, report io.ReadCloser, err error) {
	argv := r.e.opts.RunnerArgv
	cmd = exec.Command(argv[0], argv[1:]...)
	cmd.Env = []string{"GOMAXPROCS=1", "GOTRACEBACK=single"}
	cmd.Dir = r.dir
	cmd.WaitDelay = pipePatience
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("start program: %w", err)
	}
	defer outWrite.Close()
	saidRead, saidWrite, err := os.Pipe()
	if err != nil {
		_ = outRead.Close() // nobody writes
		return nil, nil, nil, fmt.Errorf("start program: %w", err)
	}
	defer saidWrite.Close()
	cmd.ExtraFiles = []*os.File{outWrite, saidWrite}
	supervised(cmd, group)
	fail := func(err error) (*exec.Cmd, io.WriteCloser, io.ReadCloser, error) {
		_, _ = outRead.Close(), saidRead.Close() // nobody writes
		return nil, nil, nil, fmt.Errorf("start program: %w", err)
	}
	if orders, err = cmd.StdinPipe(); err != nil {
		return fail(err)
	}
	if report, err = cmd.StdoutPipe(); err != nil {
		return fail(err)
	}
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	if r.noResult {
		r.said.read(outRead)
	} else {
		r.stdout.read(outRead)
	}
	r.stderr.read(saidRead)
	if err := runner.WriteFrame(orders, runner.Setup{Program: &r.setup}); err != nil { // fits into the pipe
		killGroup(cmd.Process.Pid)
		_ = cmd.Wait() // says "killed"
		return fail(err)
	}
	return cmd, orders, report, nil
}

// await waits for the end of the program and of all that it started. It lets
// the supervisor end it when timed does or when there is too much output, and
// ends the supervisor if that does not help.
func (r *programRun) await(timed context.Context, cmd *exec.Cmd, orders io.WriteCloser, report io.ReadCloser) (runner.End, error) {
	told := make(chan lastReport, 1)
	go func() { // ends with the supervisor
		var l lastReport
		l.err = runner.ReadFrame(report, &l.end)
		told <- l
	}()
	var last lastReport
	select {
	case last = <-told:
	case <-r.stdout.full:
		_ = orders.Close() // at once
		last = r.last(told)
	case <-timed.Done():
		_, _ = orders.Write([]byte{runner.OrderStop}) // it may have ended
		last = r.last(told)
	}
	end, err := last.end, last.err
	_ = orders.Close() // again, perhaps
	killGroup(cmd.Process.Pid)
	waitErr := cmd.Wait()
	if r.noResult {
		r.said.wait()
	} else {
		r.stdout.wait()
	}
	r.stderr.wait()
	switch {
	case err != nil && cmd.ProcessState != nil:
		return end, fmt.Errorf("supervisor ended: %s: %w", cmd.ProcessState, err)
	case err != nil:
		return end, fmt.Errorf("supervisor ended: %w", errors.Join(err, waitErr))
	case end.Alive > 0:
		r.e.log.Error().Int("processes", end.Alive).Msg("processes of a program cannot be killed")
	case end.Left > 0:
		r.e.log.Debug().Int("processes", end.Left).Msg("processes that a program left behind were killed")
	}
	return end, nil
}

// lastReport is what a supervisor said at its end.
type lastReport struct {
	end runner.End
	err error
}

func (r *programRun) last(told <-chan lastReport) lastReport {
	timer := time.NewTimer(r.e.opts.Grace + execPatience)
	defer timer.Stop()
	select {
	case l := <-told:
		return l
	case <-timer.C:
		return lastReport{err: errors.New("it did not stop")}
	}
}
