package scaleout

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"net"
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
	"github.com/skein-project/skein/outside"
	"github.com/skein-project/skein/worker/artefact"
	"github.com/skein-project/skein/worker/executor"
)

const (
	mostChildren = 3
	owner        = "ann"
	workMemory   = 256 << 20 // of a chunk
)

// children is how many chunks of outside workers are computed at once.
func children() int { return min(mostChildren, runtime.NumCPU()) }

// more is how much more is computed with so many children beside three hosts, each of
// which computes one chunk at a time.
func more(children int) float64 {
	const hosts = 3
	return float64(min(hosts+children, max(hosts, runtime.NumCPU()))) / hosts
}

// crowd is the outside workers.
type crowd struct {
	all sync.WaitGroup
	end context.CancelFunc
	log *os.File

	begun atomic.Int64 // sessions
}

// stop ends them all, and waits for that.
func (c *crowd) stop() {
	c.end()
	c.all.Wait()
	_ = c.log.Close() // it helps only
}

// shared is the one executor of all outside workers: what is compiled is compiled once, and
// no more is computed at once than there are processors.
type shared struct {
	wasm *executor.WASM
	free chan int // slots of wasm
}

// Run implements worker.Executor; what is shared outlives each of those that share it.
func (s *shared) Run(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

// Execute waits until something is free.
func (s *shared) Execute(ctx context.Context, _ int, t executor.Task) (job.ChunkResult, error) {
	select {
	case slot := <-s.free:
		defer func() { s.free <- slot }()
		return s.wasm.Execute(ctx, slot, t)
	case <-ctx.Done():
		return job.ChunkResult{}, executor.Infra(ctx.Err())
	}
}

// newShared makes the executor, with the module in its store.
func newShared(dir, module string, hash cluster.Hash, argv []string, log zerolog.Logger) (*shared, error) {
	store, err := artefact.New(artefact.Options{Dir: filepath.Join(dir, "artefacts"), Logger: log})
	if err != nil {
		return nil, err
	}
	f, err := os.Open(module)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	got, err := store.Put(f, job.MaxModuleBytes)
	if err != nil {
		return nil, err
	}
	if got != hash {
		return nil, fmt.Errorf("%s has changed: it is %v, not %v", module, got, hash)
	}
	s := &shared{free: make(chan int, children())}
	for i := range children() {
		s.free <- i
	}
	s.wasm, err = executor.NewWASM(executor.WASMOptions{
		Artefacts: store, Slots: children(), MemoryBytes: workMemory, CacheDir: filepath.Join(dir, "wasm-cache"), RunnerArgv: argv, Logger: log,
	})
	return s, err
}

// startCrowd has the outside workers attach. One that ends before stop is why fail is called.
func (w *show) startCrowd(ctx context.Context, fail context.CancelCauseFunc, module cluster.Hash) error {
	dir := filepath.Join(w.s.Dir(), "outside")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	began := time.Now()
	if err := w.enrol(ctx, dir); err != nil {
		return err
	}
	c := &crowd{}
	var err error
	if c.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		return err
	}
	log := zerolog.New(c.log).Level(zerolog.WarnLevel).With().Timestamp().Logger()
	s, err := newShared(dir, w.o.Wasm, module, w.o.RunnerArgv, log)
	if err != nil {
		_ = c.log.Close()
		return err
	}
	running, end := context.WithCancel(ctx)
	c.end, w.crowd = end, c
	computing, halt := context.WithCancel(context.WithoutCancel(ctx)) // longer than those that share it
	var computers sync.WaitGroup
	for i := range w.o.Workers {
		computers.Go(func() {
			err := outside.Run(running, outside.Options{
				Gateways: []string{w.url}, Dir: dirOf(dir, i), Slots: 1, MemoryBytes: workMemory, Executor: s, Dial: from(i),
				Attached: func(string) { c.begun.Add(1) }, Version: "demo", Logger: log.With().Int("pc", i).Logger(),
			})
			if running.Err() == nil {
				fail(fmt.Errorf("outside worker %d ended: %w", i, err))
			}
		})
	}
	c.all.Go(func() { _ = s.wasm.Run(computing) }) // its error is the end of computing
	c.all.Go(func() { computers.Wait(); halt() })
	if err := s.wasm.Compile(ctx, module, workMemory); err != nil { // or the first chunks wait for it
		c.stop()
		return err
	}
	err = w.until(ctx, "the outside workers attach", func() error {
		if begun := int(c.begun.Load()); begun < w.o.Workers {
			return fmt.Errorf("%d of %d sessions have begun", begun, w.o.Workers)
		}
		return nil
	})
	if err == nil {
		err = w.connected(ctx, "the outside workers are connected")
	}
	if err != nil {
		c.stop()
		return err
	}
	w.s.Say("%d outside workers of user %s enrolled, connected and attached within %.1f s, each with a key and an address of its own",
		w.o.Workers, owner, time.Since(began).Seconds())
	return nil
}

func dirOf(dir string, i int) string { return filepath.Join(dir, fmt.Sprint(i)) }

// enrol makes a key for each outside worker, and lets it in as an operator does.
func (w *show) enrol(ctx context.Context, dir string) error {
	holder, err := w.s.Holder(ctx)
	if err != nil {
		return err
	}
	at := holder.API()
	if _, err := at.SetUser(ctx, owner, api.UserRequest{Role: "submitter"}); err != nil {
		return err
	}
	for i := range w.o.Workers {
		public, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return err
		}
		text, err := access.FormatPrivateKey(private)
		if err == nil {
			err = os.MkdirAll(dirOf(dir, i), 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dirOf(dir, i), outside.KeyFile), text, 0o600)
		}
		if err == nil {
			_, err = at.EnrolWorker(ctx, api.OutsideWorkerRequest{Key: access.FormatPublicKey(public), Owner: "user:" + owner, Name: fmt.Sprintf("pc%d", i)})
		}
		if err != nil {
			return fmt.Errorf("enrol outside worker %d: %w", i, err)
		}
	}
	return nil
}

// from dials from an address of this machine that no other outside worker has: a gateway
// bounds what one address may ask.
func from(i int) outside.Dial {
	d := net.Dialer{Timeout: 10 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(i/250), byte(1+i%250))}}
	return d.DialContext
}
