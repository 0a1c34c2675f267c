package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/wait"
)

// Options says how to show skein at work.
type Options struct {
	Out io.Writer
	// Exe is the skein program, Wasm the module of the pi example.
	Exe, Wasm string
	Profile   cluster.Profile
	// Iterations of the job; 0: as many as take about demoWork on this machine.
	Iterations uint64
	// Handover stops the holder with SIGTERM instead of killing it.
	Handover bool
	// Keep leaves the state directories behind.
	Keep bool

	// within is where the directory is made; empty: where temporary files are. made is
	// told of the state directory of a host that has not started yet. Only tests set
	// them.
	within string
	made   func(stateDir string)
}

// Result is what one demo measured.
type Result struct {
	Submitted, Accepted uint64
	// Gap is the time from the signal to the first chunk assigned by the new
	// holder, by the clock of this machine.
	Gap time.Duration
}

// Shape of the demo.
const (
	demoHosts  = 3
	demoChunks = 400
	demoWork   = 16 * time.Second // of computing, without the failover
	demoLeast  = uint64(100_000_000)
	demoMost   = uint64(20_000_000_000)
	warmup     = uint64(40_000_000)
	killAt     = 0.4
	demoTime   = 5 * time.Minute // limit of the whole demo
)

// Run starts three hosts on this machine, submits a job, kills the holder at
// 40 % and lets the job finish; then it checks that nothing was lost. It leaves
// nothing behind.
func Run(ctx context.Context, o Options) (result Result, err error) {
	if _, err := os.Stat(o.Wasm); err != nil {
		return result, fmt.Errorf("the demo's module is missing: %w (make build compiles it)", err)
	}
	err = inDirectory(ctx, o, demoTime, func(ctx context.Context, d *demo) error { return d.run(ctx, &result) })
	return result, err
}

// inDirectory runs f with a directory of its own and, if it fails, keeps the logs
// of the hosts that it started in a file, which the error names; not if whole ends.
func inDirectory(whole context.Context, o Options, within time.Duration, f func(context.Context, *demo) error) (err error) {
	ctx, cancel := context.WithTimeout(whole, within)
	defer cancel()
	dir, err := os.MkdirTemp(o.within, "skein-demo-")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	d := &demo{o: o, dir: dir, start: time.Now(), size: demoHosts}
	defer func() {
		d.stopAll()
		if o.Keep || err != nil && os.Getenv("SKEIN_DEMO_KEEP") != "" {
			d.say("state kept in %s", dir)
			return
		}
		if rmErr := os.RemoveAll(dir); rmErr != nil {
			err = errors.Join(err, fmt.Errorf("demo: %w", rmErr))
		}
	}()
	if err := f(ctx, d); err != nil {
		if whole.Err() != nil { // Ctrl-C is no failure whose logs are kept
			d.say("interrupted: what was started is stopped, and the directory removed")
			return fmt.Errorf("demo: %w", whole.Err())
		}
		return d.failed(fmt.Errorf("demo: %w", err))
	}
	return nil
}

// failure is a demo's, with what to look at.
type failure struct {
	err  error
	logs string
}

func (e *failure) Error() string { return e.err.Error() }
func (e *failure) Unwrap() error { return e.err }

// Hint is what the command says below the error.
func (e *failure) Hint() string { return "read what the hosts logged: " + e.logs }

// failed keeps the logs, if there are hosts.
func (d *demo) failed(err error) error {
	if len(d.hosts) == 0 {
		return err
	}
	logs, logErr := d.saveLogs()
	if logErr != nil {
		return errors.Join(err, fmt.Errorf("keep the logs of the hosts: %w", logErr))
	}
	return &failure{err, logs}
}

// demo is one cluster of real daemons on this machine.
type demo struct {
	o     Options
	dir   string
	start time.Time
	size  int // number of hosts
	hosts []*host
	ports []int // given to hosts
	// settings returns what host i's configuration has besides the settings that
	// every host gets; nil: nothing.
	settings func(i int) string
	// env returns additions to the environment of host i's daemon; mode is the
	// voters' mode to wait for; port returns a free port instead of freePort. Only
	// tests set them.
	env  func(i, port int) []string
	mode cluster.Mode
	port func() (int, error)
}

func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.o.Out, "%6.1fs  %s\n", time.Since(d.start).Seconds(), fmt.Sprintf(format, args...))
}

func (d *demo) run(ctx context.Context, result *Result) error {
	if err := d.up(ctx); err != nil {
		return err
	}
	holder, err := d.holder(ctx)
	if err != nil {
		return err
	}
	d.say("holder is %s: it schedules the chunks of every job", holder.name)

	spec, err := d.upload(ctx, d.o.Wasm)
	if err != nil {
		return err
	}
	if spec.Iterations, err = d.calibrate(ctx, spec); err != nil {
		return err
	}
	spec.Key, spec.Name, spec.Chunk = "demo", "pi", spec.Iterations/demoChunks
	result.Submitted = spec.Iterations
	watcher := d.other(holder)
	sub, err := watcher.api.Submit(ctx, api.SubmitRequest{Spec: spec, Wait: api.WaitStable})
	if err != nil {
		return err
	}
	d.say("submitted pi to %s: %d iterations in %d chunks, on the disks of %d voters", watcher.name, spec.Iterations, sub.Spec.Chunks(), sub.StableVoters)

	if _, err := d.follow(ctx, watcher, sub.Job, killAt); err != nil {
		return err
	}
	// On a busy machine the lease may have moved in the meantime.
	if holder, err = d.holder(ctx); err != nil {
		return err
	}
	watcher = d.other(holder)
	term, at, err := d.strike(ctx, holder)
	if err != nil {
		return err
	}
	next, event, err := d.takeover(ctx, watcher, term)
	if err != nil {
		return err
	}
	result.Gap = event.Time.Sub(at)
	d.say("%s holds term %d and assigned its first chunk %.2f s after the %s", next, event.Term, result.Gap.Seconds(), d.signalName())
	job, err := d.follow(ctx, watcher, sub.Job, 1)
	if err != nil {
		return err
	}
	result.Accepted = job.Iterations.Accepted
	return d.check(ctx, job)
}

// up starts the hosts and waits until all of them vote.
func (d *demo) up(ctx context.Context) error {
	for i := range d.size {
		h, err := newHost(d, i)
		if err != nil {
			return err
		}
		d.hosts = append(d.hosts, h)
	}
	first := d.hosts[0]
	if err := first.command(ctx, "init", "--config", first.config, "--cluster", "demo"); err != nil {
		return err
	}
	if err := first.run(); err != nil {
		return err
	}
	if err := first.await(ctx, "answers", func(s api.Status) bool { return s.Lease.Holder != "" }); err != nil {
		return err
	}
	d.say("%s up: founded cluster demo, mesh address %s", first.name, first.last.Mesh.Address)
	for _, h := range d.hosts[1:] {
		token, err := first.api.CreateToken(ctx, 10*time.Minute, 1)
		if err != nil {
			return err
		}
		h.token = filepath.Join(h.dir, "token")
		if err := os.WriteFile(h.token, []byte(token.Secret.Reveal()+"\n"), 0o600); err != nil {
			return err
		}
		if err := h.run(); err != nil {
			return err
		}
	}
	for _, h := range d.hosts[1:] {
		if err := h.await(ctx, "joined", func(s api.Status) bool { return s.Members.Alive == d.size }); err != nil {
			return err
		}
		d.say("%s up: joined by its token, mesh address %s", h.name, h.last.Mesh.Address)
	}
	mode := cluster.AutoMode(d.size)
	if d.mode != "" {
		mode = d.mode
	}
	for _, h := range d.hosts {
		if err := h.await(ctx, "votes with all", func(s api.Status) bool {
			return s.Lease.Voters == d.size && s.Lease.Mode == mode && s.Members.Alive == d.size && s.Lease.Holder != ""
		}); err != nil {
			return err
		}
	}
	d.say("mesh up: %d hosts, WireGuard in userspace, %d voters, profile %s", d.size, d.size, d.o.Profile)
	return nil
}

// holder returns the host that holds the lease and whose term is open.
func (d *demo) holder(ctx context.Context) (*host, error) {
	for {
		for _, h := range d.hosts {
			l, err := h.api.Lease(ctx)
			if err == nil && l.Holder == cluster.NodeID(h.name) && l.Ready != nil && *l.Ready {
				return h, nil
			}
		}
		if err := wait.For(ctx, pollEvery); err != nil {
			return nil, errors.New("no holder was elected")
		}
	}
}

// other returns the last host but h that is still running.
func (d *demo) other(h *host) *host {
	for _, o := range slices.Backward(d.hosts) {
		if o != h && o.alive() {
			return o
		}
	}
	panic("demo: demo without a second host")
}

// upload stores a module on the last host; the others fetch it when they need
// it.
func (d *demo) upload(ctx context.Context, module string) (job.Spec, error) {
	f, err := os.Open(module)
	if err != nil {
		return job.Spec{}, err
	}
	defer f.Close()
	art, err := d.hosts[d.size-1].api.PutArtefact(ctx, f)
	if err != nil {
		return job.Spec{}, err
	}
	return job.Spec{Executor: job.ExecutorWASM, Artefact: art.Hash, Seed: 1}, nil
}

// calibrate runs a small job to measure the machine, so that the real job takes
// about as long on any machine.
func (d *demo) calibrate(ctx context.Context, spec job.Spec) (uint64, error) {
	if d.o.Iterations > 0 {
		return d.o.Iterations, nil
	}
	spec.Key, spec.Name, spec.Iterations, spec.Chunk = "warm-up", "warm-up", warmup, warmup/20
	h := d.hosts[0]
	sub, err := h.api.Submit(ctx, api.SubmitRequest{Spec: spec, Wait: api.WaitStable})
	if err != nil {
		return 0, err
	}
	var j api.Job
	for !j.State.Final() {
		if j, err = h.api.Job(ctx, string(sub.Job)); err != nil {
			return 0, err
		}
		if err := wait.For(ctx, pollEvery); err != nil {
			return 0, err
		}
	}
	if j.State != job.Completed {
		return 0, fmt.Errorf("warm-up ended %s: %s", j.State, j.Reason)
	}
	// The first chunk of each host waited for the compiler; the median is not
	// affected by it.
	rate, err := d.speed(ctx, h, sub.Job, spec.Chunk)
	if err != nil {
		return 0, err
	}
	n := uint64(rate * demoWork.Seconds())
	n = min(max(n, demoLeast), demoMost)
	n -= n % demoChunks
	d.say("warm-up: module compiled on %d hosts, %.0f M iterations/s in all", d.size, rate/1e6)
	return n, nil
}

// speed estimates the rate of all workers together from the median time of a
// chunk, as the workers measured it.
func (d *demo) speed(ctx context.Context, h *host, job job.ID, chunk uint64) (float64, error) {
	var seconds []float64
	err := h.api.Events(ctx, api.EventQuery{Kind: string(event.KindChunksAccepted)}, api.FollowOptions{}, func(e api.Event) error {
		for _, a := range acceptsOf(e, job) {
			seconds = append(seconds, a.Seconds)
		}
		return nil
	})
	if err != nil || len(seconds) == 0 {
		return 0, fmt.Errorf("warm-up: %d results: %w", len(seconds), err)
	}
	slices.Sort(seconds)
	typical := max(seconds[len(seconds)/2], 1e-4)
	return float64(d.size) * float64(chunk) / typical, nil
}
