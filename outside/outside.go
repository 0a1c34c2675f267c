package outside

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/durable"
	"github.com/skein-project/skein/internal/sysclock"
	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/scheduler/stream"
	"github.com/skein-project/skein/worker"
	"github.com/skein-project/skein/worker/artefact"
	"github.com/skein-project/skein/worker/executor"
)

// KeyFile is the file of the state directory with the key that the worker is.
const KeyFile = "worker.key"

// Times of a computer.
const (
	spread      = 3 * time.Second  // over which those come back that lost a gateway at once
	mostPause   = 30 * time.Second // between tries
	askOwner    = 12 * time.Second // between looks whether the worker was claimed
	tidyEvery   = 10 * time.Minute
	artefactAge = 24 * time.Hour
	byeTime     = 5 * time.Second
)

// artefactBytes bounds the modules that are kept.
const artefactBytes = 1 << 30

// Options configures a computer. Zero fields take the default.
type Options struct {
	// Gateways are URLs; one after the other is tried.
	Gateways []string
	// Token is an access token for work, of the owner; empty: the owner claims the worker
	// by a code.
	Token api.Secret
	// TLS is what to ask of gateways; nil: a certificate that this machine trusts.
	TLS *tls.Config
	Dir string // of its state
	// Name is what the owner sees; default: none.
	Name string
	// Slots is how many chunks run at once; default: the processors, at most 64.
	Slots int
	// MemoryBytes is the most that a chunk may have; default: executor.DefaultMemoryCap.
	MemoryBytes uint64
	// RunnerArgv is as in executor.WASMOptions.
	RunnerArgv []string
	Version    string
	// Say tells the person who started it something; nil: nobody.
	Say    func(text string)
	Logger zerolog.Logger

	// Executor runs chunks; nil: WebAssembly in children of this program, with MemoryBytes
	// and RunnerArgv.
	Executor worker.Executor
	// Dial opens connections; nil: a net.Dialer.
	Dial Dial
	// Attached is told the gateway at which a session begins; nil: nobody is.
	Attached func(gateway string)

	beat time.Duration // of tests; default beatEvery
}

// computer is one that works.
type computer struct {
	o        Options
	log      zerolog.Logger
	key      ed25519.PrivateKey
	fresh    bool // no gateway knows key
	gateways []*gateway
	worker   *worker.Worker
	store    *artefact.Store
	ended    <-chan struct{} // of Run's context
	at       atomic.Pointer[gateway]
	said     string

	term    cluster.Term // of the latest stream with the worker
	after   uint64       // a session must be higher
	began   time.Time    // of the session at present; zero: it is not attached
	settled bool         // something was, in that session
}

// Run works until ctx ends, and then leaves what it has to others. Errors are
// *FinalError, or of this computer.
func Run(ctx context.Context, o Options) error {
	if o.Slots = cmp.Or(o.Slots, min(runtime.NumCPU(), stream.MaxCrewSlots)); o.Slots < 1 || o.Slots > stream.MaxCrewSlots {
		return stop(fmt.Errorf("%d slots, want 1-%d", o.Slots, stream.MaxCrewSlots))
	}
	o.MemoryBytes = cmp.Or(o.MemoryBytes, executor.DefaultMemoryCap)
	if o.Say == nil {
		o.Say = func(string) {}
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return err
	}
	lock, err := durable.Lock(o.Dir)
	if err != nil {
		return fmt.Errorf("another skein works here: %w", err)
	}
	defer lock.Close()
	c := &computer{o: o, log: o.Logger, ended: ctx.Done()}
	if c.key, c.fresh, err = keyOf(filepath.Join(o.Dir, KeyFile)); err != nil {
		return err
	}
	for _, u := range o.Gateways {
		g, err := newGateway(u, c.key, o.TLS, o.Dial)
		if err != nil {
			return stop(err)
		}
		c.gateways = append(c.gateways, g)
	}
	if len(c.gateways) == 0 {
		return stop(errors.New("no gateway given"))
	}
	if err := c.build(); err != nil {
		return err
	}
	return c.run(ctx)
}

// keyOf reads the key, or makes it: then it is fresh.
func keyOf(file string) (k ed25519.PrivateKey, fresh bool, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		_, k, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, false, err
		}
		if text, err = access.FormatPrivateKey(k); err != nil {
			return nil, false, err
		}
		return k, true, durable.WriteFile(file, text, 0o600)
	}
	if err != nil {
		return nil, false, err
	}
	if k, err = access.ParsePrivateKey(text); err != nil {
		return nil, false, fmt.Errorf("%s: %w: remove it, and the worker begins with a new key", file, err)
	}
	return k, false, nil
}

func (c *computer) build() error {
	var err error
	if c.store, err = artefact.New(artefact.Options{
		Dir: filepath.Join(c.o.Dir, "artefacts"), Quota: artefactBytes, Source: c.artefact, Logger: c.log,
	}); err != nil {
		return err
	}
	wasm := c.o.Executor
	if wasm == nil {
		if wasm, err = executor.NewWASM(executor.WASMOptions{
			Artefacts: c.store, Slots: c.o.Slots, MemoryBytes: c.o.MemoryBytes, CacheDir: filepath.Join(c.o.Dir, "wasm-cache"),
			RunnerArgv: c.o.RunnerArgv, Logger: c.log,
		}); err != nil {
			return err
		}
	}
	c.worker, err = worker.New(worker.Options{
		Slots: c.o.Slots, Queue: c.o.Slots, MemoryBytes: c.o.MemoryBytes, Executors: map[string]worker.Executor{job.ExecutorWASM: wasm},
		OutboxFile: filepath.Join(c.o.Dir, "outbox"), Now: sysclock.Boot, Logger: c.log,
	})
	return err
}

// artefact opens what a chunk needs, at the gateway that gave it.
func (c *computer) artefact(ctx context.Context, h cluster.Hash) (io.ReadCloser, error) {
	g := c.at.Load()
	if g == nil {
		return nil, errors.New("no gateway at present")
	}
	return g.artefact(ctx, h)
}

func (c *computer) run(ctx context.Context) error {
	// The way to the gateway outlives the worker, which says last what it has.
	outer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	inner, halt := context.WithCancel(ctx)
	defer halt()
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		err := c.worker.Run(inner)
		if err == nil && ctx.Err() == nil {
			return
		}
		if err != nil {
			cancel(err)
		}
		time.AfterFunc(byeTime, func() { cancel(ctx.Err()) })
	})
	all.Go(func() { c.tidy(inner) })
	err := c.work(outer)
	halt()
	if cause := context.Cause(outer); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// ending says that Run's context has ended.
func (c *computer) ending() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// work attaches, at one gateway after the other, until ctx ends or it makes no sense any
// more.
func (c *computer) work(ctx context.Context) error {
	short := 0 // sessions in a row that were, and came to nothing
	for next := 0; ; next++ {
		g := c.gateways[next%len(c.gateways)]
		c.began, c.settled = time.Time{}, false
		err := c.workAt(ctx, g, short > len(c.gateways))
		if c.ending() || ctx.Err() != nil {
			return nil
		}
		if _, final := errors.AsType[*FinalError](err); final {
			return err
		}
		attached := time.Duration(0)
		if !c.began.IsZero() {
			attached = time.Since(c.began)
		}
		short = inRow(short, c.settled, attached)
		again := errors.Is(err, errAgain)
		if again {
			next-- // at the same one
		}
		pause := mathrand.N(pauseUpTo(short, len(c.gateways), again))
		c.log.Warn().Err(err).Str("gateway", g.url).Float64("pause_seconds", pause.Seconds()).Msg("no work from this gateway")
		if c.wait(ctx, pause) != nil {
			return nil
		}
	}
}

// inRow counts sessions in a row that came to little, after one more. One of which a result
// was settled, or that was long, came to something: gateways that are restarted one after
// the other lose their workers for no longer each time.
func inRow(before int, settled bool, attached time.Duration) int {
	if settled || attached > mostPause {
		return 1
	}
	return before + 1
}

// pauseUpTo is how long is waited at most after as many sessions in a row that came to
// little, the one that has just ended counted: not long for one that only begins anew, nor until each gateway was tried.
func pauseUpTo(short, gateways int, again bool) time.Duration {
	switch {
	case again && short <= 3:
		return spread / 10
	case short <= gateways:
		return spread
	}
	return min(mostPause, spread<<min(short-gateways, 8))
}

// workAt works at one gateway until that ends. Where nobody takes a connection it goes by HTTP:
// if connections are not to the gateway itself, or if there was none anywhere.
func (c *computer) workAt(ctx context.Context, g *gateway, nowhere bool) error {
	if err := c.enrol(ctx, g); err != nil {
		return err
	}
	l, err := g.open(ctx, c.o.Version)
	if err != nil {
		_, final := errors.AsType[*FinalError](err)
		if final || ctx.Err() != nil || !nowhere && g.elsewhere() == "" {
			return err
		}
		c.log.Warn().Err(err).Str("gateway", g.url).Msg("no connection: everything is asked by HTTP for a minute")
		l = g.byHTTP()
	}
	defer l.close()
	c.at.Store(g)
	return c.serve(ctx, l)
}

// enrol waits until the worker is let in.
func (c *computer) enrol(ctx context.Context, g *gateway) error {
	for {
		// Of a fresh key no gateway knows: to ask for its token would count as a bad proof, of
		// which the computers of one address have few.
		if !c.fresh {
			_, err := g.bearer(ctx)
			p, ok := errors.AsType[*api.Problem](err)
			if !ok || p.Code != api.CodeForbidden {
				return err
			}
		}
		var reg api.WorkerRegistered
		if err := g.signed(ctx, "/v1/workers/register", api.WorkerRegister{
			PublicKey: access.FormatPublicKey(c.key.Public().(ed25519.PublicKey)), Name: c.o.Name, Client: api.GatewayClient, AccessToken: c.o.Token,
		}, &reg); err != nil {
			if p, ok := errors.AsType[*api.Problem](err); ok && (p.Code == api.CodeForbidden || p.Code == api.CodeUnauthorized && c.o.Token != "") {
				return stop(fmt.Errorf("%s does not let this worker in: %w", g.url, err))
			}
			return err
		}
		c.fresh = false
		if reg.ClaimCode == "" {
			c.say(fmt.Sprintf("%s is a worker of %s", reg.Worker, reg.Owner))
			continue
		}
		c.say(fmt.Sprintf("claim code %s, good until %s: whoever shall own this worker gives it at %s, and compares the fingerprint %s",
			reg.ClaimCode.Reveal(), reg.ExpiresAt.Local().Format("15:04"), g.url, reg.Fingerprint))
		for time.Until(*reg.ExpiresAt) > 0 {
			if err := c.wait(ctx, askOwner); err != nil {
				return err
			}
			if _, err := g.bearer(ctx); err == nil {
				break
			}
		}
	}
}

// wait waits, unless Run's context ends.
func (c *computer) wait(ctx context.Context, d time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	return wait.For(ctx, d)
}

// say tells the person something new.
func (c *computer) say(text string) {
	if text != c.said {
		c.said = text
		c.o.Say(text)
	}
}

// tidy drops artefacts that nothing needs any more.
func (c *computer) tidy(ctx context.Context) {
	for wait.For(ctx, tidyEvery) == nil {
		if _, err := c.store.Collect(func(cluster.Hash) bool { return false }, artefactAge); err != nil {
			c.log.Warn().Err(err).Msg("modules that nothing needs cannot be removed")
		}
	}
}
