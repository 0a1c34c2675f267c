package gatebench

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/bench/testbed"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/gateway/desk"
	"github.com/skein-project/skein/scheduler/stream"
	"github.com/skein-project/skein/store/redis"
)

// GatewaysRole makes a program of this module ten gateways on a Redis, with what their
// workers say: what they take is not the holder's.
const GatewaysRole = "gateways"

const (
	gatewayCount = 10
	callers      = 16 // of each gateway
	beatEvery    = 10 * time.Second
	// workBeats is how many beats a chunk takes.
	workBeats = 3
	redisID   = "bench"
	redisName = "sk"
)

// gateways are their stores, and the workers at them.
type gateways struct {
	stores  []*redis.Store
	workers []*remote
	byID    map[cluster.NodeID]*remote
}

// remote is an outside worker: it has what it was told, and is done with one chunk at each
// third beat.
type remote struct {
	seat  desk.Seat
	beats int

	mu   sync.Mutex
	spec *job.Spec
	have []job.Attempt
}

// said is what the gateways answer to a line.
type said struct {
	Beats, Completes, Failed int64
	Seconds                  float64 // that it took
	CPU                      float64 // seconds of the processor
}

// Gateways is a program of GatewaysRole: args are the socket of the Redis and how many
// workers there are. It does what lines of in ask for, each with a number of milliseconds:
// "attach", "run", or "rush", which beats as fast as may be; and answers each by a line.
func Gateways(args []string, in io.Reader, out, failed io.Writer) int {
	err := errors.New("want a socket and a number")
	if len(args) == 2 {
		var n int
		if n, err = strconv.Atoi(args[1]); err == nil {
			err = serveLines(args[0], n, in, out)
		}
	}
	if err != nil {
		fmt.Fprintln(failed, "gateways:", err)
		return 1
	}
	return 0
}

func newStore(socket string, self cluster.NodeID) (*redis.Store, error) {
	return redis.New(redis.Options{
		Server: redis.Server{Addresses: []string{"unix://" + socket}, Prefix: redisName}, Cluster: redisID, Self: self, Logger: zerolog.Nop(),
	})
}

// runStore has a store serve, until the context ends.
func runStore(ctx context.Context, wg *sync.WaitGroup, s *redis.Store) error {
	wg.Go(func() { _ = s.Run(ctx) }) // says that it was cancelled
	return suite.Poll(ctx, "Redis serves", time.Minute, func() bool { return s.Why() == nil })
}

func serveLines(socket string, n int, in io.Reader, out io.Writer) error {
	g := &gateways{workers: make([]*remote, n), byID: make(map[cluster.NodeID]*remote, n)}
	for i := range g.workers {
		g.workers[i] = &remote{beats: i % workBeats} // a third of them is done with a chunk at each beat
		g.byID[cluster.OutsideID(outsider(i))] = g.workers[i]
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for i := range gatewayCount {
		s, err := newStore(socket, cluster.NodeID(fmt.Sprintf("gateway-%d", i)))
		if err != nil {
			return err
		}
		s.OnPush(g.hear)
		if err := runStore(ctx, &wg, s); err != nil {
			return err
		}
		g.stores = append(g.stores, s)
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var what string
		var ms int
		if _, err := fmt.Sscan(lines.Text(), &what, &ms); err != nil {
			return err
		}
		before, began := ownCPU(), time.Now()
		var a said
		var err error
		switch d := time.Duration(ms) * time.Millisecond; what {
		case "attach":
			err = g.attach()
		case "run":
			a = g.run(d)
		case "rush":
			a = g.rush(d)
		}
		if err != nil {
			return err
		}
		a.Seconds, a.CPU = time.Since(began).Seconds(), ownCPU()-before
		text, err := json.Marshal(a)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\n", text)
	}
	return nil
}

// ownCPU is how many seconds of the processor this process took.
func ownCPU() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// attach has each worker attach at one of the gateways.
func (g *gateways) attach() error {
	var failed atomic.Pointer[error]
	g.each(func(i int, w *remote) {
		a := attaching(i, 1)
		seat, _, err := g.stores[i%gatewayCount].Attach(a)
		if err != nil {
			failed.Store(&err)
			return
		}
		w.seat = seat
	})
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// each calls f for each worker, as many at once as there are callers.
func (g *gateways) each(f func(int, *remote)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range gatewayCount * callers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(g.workers); i = int(next.Add(1)) - 1 {
				f(i, g.workers[i])
			}
		})
	}
	all.Wait()
}

// hear takes in what a worker is told.
func (g *gateways) hear(p desk.Push) {
	w := g.byID[p.Worker]
	if w == nil || p.Kind != desk.PushChunks && p.Kind != desk.PushStop {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.Kind == desk.PushChunks {
		w.spec = p.Chunks.Spec
		w.have = append(w.have, p.Chunks.Refs...)
		return
	}
	w.have = nil // of one job all that it has is the same
}

// run has each worker beat each ten seconds, one after the other, for so long.
func (g *gateways) run(d time.Duration) (a said) {
	var beats, completes, failed atomic.Int64
	var next atomic.Int64
	began := time.Now()
	var all sync.WaitGroup
	for range gatewayCount * callers {
		all.Go(func() {
			for {
				i := next.Add(1) - 1
				at := time.Duration(float64(i) / float64(len(g.workers)) * float64(beatEvery))
				if at >= d {
					return
				}
				time.Sleep(at - time.Since(began))
				w := g.workers[int(i)%len(g.workers)]
				if err := w.beat(&completes); err != nil {
					failed.Add(1)
				}
				beats.Add(1)
			}
		})
	}
	all.Wait()
	return said{Beats: beats.Load(), Completes: completes.Load(), Failed: failed.Load()}
}

// beat says how far a worker is, and at each third beat completes a chunk.
func (w *remote) beat(completes *atomic.Int64) error {
	w.mu.Lock()
	w.beats++
	b := desk.Beat{Ready: true}
	var done []stream.Result
	if w.beats%workBeats == 0 && len(w.have) > 0 {
		r := testbed.Done(w.spec, w.have[0])
		r.Seconds = beatEvery.Seconds() * workBeats
		done = append(done, r)
		w.have = w.have[1:]
	}
	for i, ref := range w.have {
		p := desk.Progress{Attempt: ref}
		if i == 0 {
			p.Done = uint64(w.beats%workBeats) * w.spec.Chunk / workBeats
		}
		b.Have = append(b.Have, p)
	}
	w.mu.Unlock()
	if len(done) > 0 {
		if _, err := w.seat.Complete(done); err != nil {
			return err
		}
		completes.Add(1)
	}
	_, err := w.seat.Beat(b)
	return err
}

// rush has workers beat as fast as Redis answers.
func (g *gateways) rush(d time.Duration) said {
	var beats, failed, next atomic.Int64
	began := time.Now()
	var all sync.WaitGroup
	for range gatewayCount * callers {
		all.Go(func() {
			for time.Since(began) < d {
				w := g.workers[int(next.Add(1)-1)%len(g.workers)]
				w.mu.Lock()
				b := desk.Beat{Ready: true}
				for _, ref := range w.have {
					b.Have = append(b.Have, desk.Progress{Attempt: ref})
				}
				w.mu.Unlock()
				if _, err := w.seat.Beat(b); err != nil {
					failed.Add(1)
				}
				beats.Add(1)
			}
		})
	}
	all.Wait()
	return said{Beats: beats.Load(), Failed: failed.Load()}
}

// away is the gateways, in a process of their own.
type away struct {
	in    io.WriteCloser
	lines *bufio.Reader
	stop  func() error
}

// startGateways starts them, with n workers that are not attached.
func startGateways(ctx context.Context, socket string, n int) (*away, error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, "/proc/self/exe", GatewaysRole, socket, strconv.Itoa(n))
	in, errI := cmd.StdinPipe()
	out, errO := cmd.StdoutPipe()
	var wrong tail
	cmd.Stderr = &wrong
	if err := cmp.Or(errI, errO); err != nil {
		cancel()
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	return &away{in: in, lines: bufio.NewReader(out), stop: func() error {
		_ = in.Close() // its end
		late := time.AfterFunc(crowdTime, cancel)
		defer late.Stop()
		defer cancel()
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("%w: %s", err, wrong.text)
		}
		return nil
	}}, nil
}

// tail keeps the beginning of what is written.
type tail struct{ text []byte }

func (t *tail) Write(b []byte) (int, error) {
	t.text = append(t.text, b[:min(len(b), 4096-min(len(t.text), 4096))]...)
	return len(b), nil
}

// ask has them do something, and returns what they say of it.
func (a *away) ask(what string, d time.Duration) (out said, err error) {
	if _, err := fmt.Fprintf(a.in, "%s %d\n", what, d.Milliseconds()); err != nil {
		return out, fmt.Errorf("gateways, %s: %w", what, err)
	}
	line, err := a.lines.ReadBytes('\n')
	if err != nil {
		return out, fmt.Errorf("gateways, %s: %w", what, err)
	}
	err = json.Unmarshal(line, &out)
	if err == nil && out.Failed > 0 {
		err = fmt.Errorf("gateways, %s: %d calls failed", what, out.Failed)
	}
	return out, err
}
