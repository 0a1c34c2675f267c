package scaleout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/balance"
	"github.com/skein-project/skein/internal/demo"
	"github.com/skein-project/skein/internal/servertest"
	"github.com/skein-project/skein/internal/wait"
)

// Shape of the demo.
const (
	workers    = 200
	chunks     = 4000
	work       = 90 * time.Second // of computing, of all that computes
	enough     = 35 * time.Second // for all that is shown, where a short job is asked for
	redisDown  = 5 * time.Second
	demoTime   = 10 * time.Minute // limit of the whole demo, which takes 4 min on two processors
	attachTime = 3 * time.Minute  // limit of one step that waits for outside workers
	pollEvery  = 100 * time.Millisecond
	tellEvery  = 5 * time.Second
)

// Shares of the job after which something is killed, unless it takes longer until what was
// killed before is back.
const (
	gatewayAt = 0.10
	fugoAt    = 0.20
	redisAt   = 0.35
	holderAt  = 0.50
	holderEnd = 0.85 // so much is left for the next holder
)

// TooShortError says that the job was over, or nearly, before all was shown.
type TooShortError struct {
	Before string // what was to be shown next
	// Iterations are as many as would have been enough, by how long these took.
	Iterations uint64
}

func (e *TooShortError) Error() string {
	return fmt.Sprintf("the job ended before %s: it is too short for this machine, give it --iterations %.1e", e.Before, float64(e.Iterations))
}

// tooShort is that error, when so much of the job is done.
func (w *show) tooShort(before string, share float64) error {
	took := max(time.Since(w.began), time.Second)
	return &TooShortError{Before: before, Iterations: uint64(float64(w.iterations) * share * enough.Seconds() / took.Seconds())}
}

// Options says how to show it.
type Options struct {
	demo.Options
	// Workers is how many outside workers there are, Chunks how many chunks; 0: as the
	// shape says.
	Workers, Chunks int
	// Down is how long Redis and Centrifugo are away; 0: redisDown.
	Down time.Duration
	// RunnerArgv starts a process that runs chunks of outside workers; nil: that of Exe.
	RunnerArgv []string
}

// Result is what one demo measured.
type Result struct {
	Chunks, Outside int // that count, and those of them by outside workers
	// Gateway is the time from the kill of a gateway until an outside worker's result counted,
	// Redis from the start of Redis until one did, Centrifugo from its start until all outside
	// workers were seen to be connected there again, after the job, Holder from the kill of the holder until the next one
	// gave out a chunk.
	Gateway, Redis, Centrifugo, Holder time.Duration
	Down                               time.Duration // of Redis
	Rows                               int           // of chunks, in the table
}

// show is one demo.
type show struct {
	o          Options
	s          *demo.Stage
	redis      *servertest.Redis
	pg         *servertest.Postgres
	fugo       *fugo
	gateways   map[string]string // addresses, by host
	balancer   *balance.Balancer
	url        string // of all gateways: the balancer's
	crowd      *crowd
	portal     *portal
	job        job.ID
	began      time.Time // of the job
	iterations uint64
	told       time.Time // of the latest line about how far the job is
	result     Result
}

// Run shows it, and leaves nothing behind. What is missing on this machine is a
// *MissingError, and then nothing was started.
func Run(ctx context.Context, o Options) (Result, error) {
	if err := missing(); err != nil {
		return Result{}, err
	}
	if o.Workers == 0 {
		o.Workers = workers
	}
	if o.Chunks == 0 {
		o.Chunks = chunks
	}
	if o.Down == 0 {
		o.Down = redisDown
	}
	if o.RunnerArgv == nil {
		o.RunnerArgv = []string{o.Exe, "runner"}
	}
	w := &show{o: o, gateways: map[string]string{}}
	err := demo.OnStage(ctx, o.Options, demoTime, func(ctx context.Context, s *demo.Stage) error {
		w.s = s
		return w.play(ctx)
	})
	return w.result, err
}

func (w *show) play(ctx context.Context) error {
	if err := w.startServers(ctx); err != nil {
		return err
	}
	defer w.stopServers()
	defer w.s.Stop() // before what they use
	defer func() { w.portal.close() }()
	if err := w.startHosts(ctx); err != nil {
		return err
	}
	defer w.balancer.Close()
	if err := w.startFugo(ctx); err != nil {
		return err
	}
	defer w.fugo.stop()
	spec, err := w.s.Upload(ctx)
	if err != nil {
		return err
	}
	if spec.Iterations, err = w.size(ctx, spec); err != nil {
		return err
	}
	spec.Chunk = spec.Iterations / uint64(w.o.Chunks)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := w.startCrowd(ctx, cancel, spec.Artefact); err != nil {
		return because(ctx, err)
	}
	defer w.crowd.stop()
	if err := w.fromTable(ctx, spec); err != nil {
		return because(ctx, err)
	}
	w.began, w.iterations = time.Now(), spec.Iterations
	for _, lose := range []func(context.Context) error{w.loseGateway, w.loseFugo, w.loseRedis, w.loseHolder} {
		if err := lose(ctx); err != nil {
			return because(ctx, err)
		}
	}
	if err := w.intoTable(ctx); err != nil {
		return because(ctx, err)
	}
	if err := w.backAtFugo(ctx); err != nil {
		return because(ctx, err)
	}
	w.crowd.stop()
	return w.compare(ctx, spec)
}

// because is why ctx ended, where that is why something failed.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
		return cause
	}
	return err
}

// startHosts starts three hosts, of which the last two are gateways.
func (w *show) startHosts(ctx context.Context) error {
	dsn := filepath.Join(w.s.Dir(), "dsn")
	if err := writeSecret(dsn, w.pg.DSN); err != nil {
		return err
	}
	port, err := w.s.FreePort()
	if err != nil {
		return err
	}
	front := fmt.Sprintf("127.0.0.1:%d", port)
	w.url = "http://" + front
	if w.fugo, err = newFugo(w.s); err != nil {
		return err
	}
	addrs := map[int]string{}
	for i := 1; i <= 2; i++ {
		if port, err = w.s.FreePort(); err != nil {
			return err
		}
		addrs[i] = fmt.Sprintf("127.0.0.1:%d", port)
	}
	err = w.s.Up(ctx, func(i int) string {
		text := "[gateway]\nstore = \"redis\"\n"
		if addrs[i] != "" {
			text += fmt.Sprintf("listen = %q\nurl = %q\n", addrs[i], w.url) + w.fugo.settings(i)
		}
		return text + fmt.Sprintf("[redis]\naddresses = \"unix://%s\"\n[postgres]\ndsn_file = %q\nintake = true\nsink = true\nchunks = true\n", w.redis.Socket, dsn)
	})
	if err != nil {
		return err
	}
	hosts := w.s.Hosts()
	for i, addr := range addrs {
		w.gateways[hosts[i].Name()] = addr
	}
	for name, addr := range w.gateways {
		if err := w.until(ctx, name+" is a gateway", func() error { return ready(ctx, addr) }); err != nil {
			return err
		}
	}
	if w.balancer, err = balance.Open(ctx, front, slices.Sorted(maps.Values(w.gateways))...); err != nil {
		return err
	}
	w.s.Say("%s and %s are gateways behind a load balancer, %s; what they know of outside workers is in Redis", hosts[1].Name(), hosts[2].Name(), w.url)
	return nil
}

// size is how many iterations the job has.
func (w *show) size(ctx context.Context, spec job.Spec) (uint64, error) {
	n, err := w.s.Calibrate(ctx, spec, work)
	if err == nil && w.o.Iterations == 0 {
		n = uint64(float64(n) * more(children()))
	}
	if n -= n % uint64(w.o.Chunks); err == nil && n == 0 {
		err = fmt.Errorf("%d iterations are too few for %d chunks", w.o.Iterations, w.o.Chunks)
	}
	return n, err
}

// until tries until it works, at most for attachTime.
func (w *show) until(ctx context.Context, what string, try func() error) error {
	limit := time.Now().Add(attachTime)
	for {
		err := try()
		if err == nil {
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf("%s: not within %v: %w", what, attachTime, err)
		}
		if waited := wait.For(ctx, pollEvery); waited != nil {
			return fmt.Errorf("%s: %w", what, errors.Join(waited, err))
		}
	}
}

// ask asks the hosts that run, one after the other, until one answers.
func (w *show) ask(ctx context.Context, do func(context.Context, *api.Client) error) (err error) {
	for _, h := range w.s.Hosts() {
		if !h.Alive() {
			continue
		}
		one, cancel := context.WithTimeout(ctx, 5*time.Second)
		err = do(one, h.API())
		if cancel(); err == nil {
			return nil
		}
	}
	return err
}

// count is how far the job is.
type count struct {
	all, outside, total int
	over                bool
}

// hosts is how many chunks hosts have done.
func (c count) hosts() int { return c.all - c.outside }

func (w *show) count(ctx context.Context) (c count, err error) {
	err = w.ask(ctx, func(ctx context.Context, at *api.Client) error {
		j, err := at.Job(ctx, string(w.job))
		if err == nil {
			c = countOf(j)
		}
		return err
	})
	return c, err
}

func countOf(j api.Job) count {
	c := count{all: j.Chunks.Accepted, total: j.Chunks.Total, over: j.State.Final()}
	for _, by := range j.Workers {
		if cluster.IsOutside(by.Node) {
			c.outside += by.Accepted
		}
	}
	return c
}

// follow waits until the job is so far that ok holds, and tells now and then how far it is.
// That it is over before, or that nothing counts for attachTime, is an error.
func (w *show) follow(ctx context.Context, what string, ok func(count) bool) (count, error) {
	var now count
	for moved := time.Now(); ; {
		next, err := w.count(ctx)
		switch {
		case err == nil && ok(next):
			return next, nil
		case err == nil && next.over:
			return next, w.tooShort(what, 1)
		case err == nil && next.all > now.all:
			now, moved = next, time.Now()
		case time.Since(moved) > attachTime:
			return now, fmt.Errorf("until %s: nothing counted for %v, %d of %d chunks do: %w", what, attachTime, now.all, now.total, err)
		}
		if time.Since(w.told) > tellEvery && err == nil {
			w.told = time.Now()
			w.s.Say("%5.1f %%  %d of %d chunks, %d of them by outside workers", 100*float64(next.all)/float64(next.total), next.all, next.total, next.outside)
		}
		if err := wait.For(ctx, pollEvery); err != nil {
			return now, fmt.Errorf("until %s: %w", what, err)
		}
	}
}
