package gatebench

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/bench/testbed"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/gateway/crew"
	"github.com/skein-project/skein/gateway/desk"
	"github.com/skein-project/skein/scheduler/stream"
)

// owner is whose the outside workers are, and their jobs.
const owner = "user:ann"

// outsider is the public key of an outside worker.
func outsider(i int) []byte {
	key := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i)))
	return key[:]
}

// enrolment is what a log says of n outside workers of ann, trusted as hosts are or not.
func enrolment(n int, trusted bool) []event.Draft {
	out := []event.Draft{{Term: 1, Kind: event.KindUserSet, Body: event.UserSet{Name: "ann", Role: "submitter", Actor: "uid:0"}}}
	for i := range n {
		key := outsider(i)
		out = append(out, event.Draft{Term: 1, Kind: event.KindWorkerEnrolled, Body: event.WorkerEnrolled{
			Worker: cluster.OutsideID(key), Key: key, Owner: owner, Trusted: trusted, Actor: "uid:0",
		}})
	}
	return out
}

// attaching is outside worker i, with slots.
func attaching(i, slots int) desk.Attach {
	return desk.Attach{
		Worker: cluster.OutsideID(outsider(i)), Owner: owner, Slots: slots, Room: 2 * slots, MemoryBytes: 8 << 30, Executors: []string{job.ExecutorWASM},
	}
}

// hall is a host that lets outside workers in, which is the holder, too: each reaches the
// other by the streams of the mesh, here over loopback.
type hall struct {
	crew   *crew.Crew
	holder *testbed.Holder
	work   *testbed.IdleWorker // the host's own worker, which has no slots
	door   net.Listener        // of crew streams
	stop   context.CancelFunc
	wg     sync.WaitGroup
}

// newHall opens one that has enrolled n outside workers. It leads no term yet.
func newHall(ctx context.Context, dir string, n int) (*hall, error) {
	h := &hall{stop: func() {}}
	began := time.Now()
	var err error
	if h.crew, err = crew.New(crew.Options{Now: func() time.Duration { return time.Since(began) }, Logger: zerolog.Nop()}); err != nil {
		return nil, err
	}
	if h.work, err = testbed.NewIdleWorker(0, 0); err != nil {
		return nil, err
	}
	if h.door, err = (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return nil, errors.Join(err, h.close())
	}
	h.holder, err = testbed.NewHolder(ctx, filepath.Join(dir, "log"), testbed.HolderOptions{
		Begin: enrolment(n, true),
		Dial:  func(ctx context.Context, _ cluster.NodeID) (net.Conn, error) { return h.work.Dial(ctx) },
		DialCrew: func(ctx context.Context, _ cluster.NodeID) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", h.door.Addr().String())
		},
	})
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	running, stop := context.WithCancel(context.Background())
	h.stop = stop
	h.wg.Go(func() { _ = h.crew.Run(running) }) // says that it was cancelled
	h.wg.Go(func() {
		for {
			conn, err := h.door.Accept()
			if err != nil {
				return
			}
			h.wg.Go(func() { h.crew.Serve(running, h.holder.Self, conn) })
		}
	})
	return h, nil
}

func (h *hall) close() (err error) {
	if h.holder != nil {
		err = h.holder.Close()
	}
	if h.door != nil {
		_ = h.door.Close()
	}
	h.stop()
	h.wg.Wait()
	h.work.Close()
	return err
}

// answer completes each chunk that a seat is told of, until the seat is over.
func answer(seat *crew.Seat) {
	for {
		select {
		case <-seat.Ready():
		case <-seat.Over():
			return
		}
		var done []stream.Result
		for _, p := range seat.Take() {
			if p.Kind != desk.PushChunks {
				continue
			}
			for _, ref := range p.Chunks.Refs {
				done = append(done, testbed.Done(p.Chunks.Spec, ref))
			}
		}
		if len(done) > 0 {
			_, _ = seat.Complete(done) // of a seat that is over it is void
		}
	}
}

// chunks is something that runs them.
type chunks struct {
	holder *testbed.Holder
	close  func() error
}

// byCrew is n outside workers of one slot at one host.
func byCrew(ctx context.Context, dir string, n int) (*chunks, error) {
	h, err := newHall(ctx, dir, n)
	if err != nil {
		return nil, err
	}
	var answering sync.WaitGroup
	var seats []*crew.Seat
	c := &chunks{holder: h.holder, close: func() error {
		err := h.holder.Resign() // all that was done is counted
		for _, s := range seats {
			_ = s.Bye() // it may be over
		}
		answering.Wait()
		return errors.Join(err, h.close())
	}}
	for i := range n {
		seat, _, err := h.crew.Attach(attaching(i, 1))
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		seats = append(seats, seat)
		answering.Go(func() { answer(seat) })
	}
	if err := errors.Join(h.holder.Lead(1), h.holder.Connected(ctx, n+1)); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// byHosts is n hosts that have so many slots in all.
func byHosts(ctx context.Context, dir string, n, slots int) (*chunks, error) {
	workers := map[cluster.NodeID]*testbed.IdleWorker{}
	var names []cluster.NodeID
	c := &chunks{close: func() error { return nil }}
	end := func() error {
		err := c.close()
		for _, w := range workers {
			w.Close()
		}
		return err
	}
	for i := range n {
		w, err := testbed.NewIdleWorker(slots/n, 2*slots/n)
		if err != nil {
			return nil, errors.Join(err, end())
		}
		name := cluster.NodeID(fmt.Sprintf("host-%03d", i+1)) // the first is the holder
		workers[name], names = w, append(names, name)
	}
	h, err := testbed.NewHolder(ctx, filepath.Join(dir, "log"), testbed.HolderOptions{
		Hosts: names, Begin: enrolment(0, true),
		Dial: func(ctx context.Context, to cluster.NodeID) (net.Conn, error) { return workers[to].Dial(ctx) },
	})
	if err != nil {
		return nil, errors.Join(err, end())
	}
	c.holder, c.close = h, h.Close
	if err := errors.Join(h.Lead(1), h.Connected(ctx, n)); err != nil {
		return nil, errors.Join(err, end())
	}
	return &chunks{holder: h, close: end}, nil
}

// mostChunks is more than anything here does in a second.
const mostChunks = 300_000

// rate is how many chunks a second are done, durably.
func (c *chunks) rate(ctx context.Context, burst time.Duration) (float64, error) {
	warm := burst / 5
	all := int64(mostChunks * (warm + burst + 100*time.Millisecond).Seconds())
	if err := c.holder.Queue(ctx, owner, int(all)); err != nil {
		return 0, err
	}
	done := &c.holder.Log.Accepted
	if err := suite.Poll(ctx, "a first chunk is done", time.Minute, func() bool { return done.Load() > 0 }); err != nil {
		return 0, err
	}
	if err := suite.Pause(ctx, warm); err != nil {
		return 0, err
	}
	before, began := done.Load(), time.Now()
	if err := suite.Pause(ctx, burst); err != nil {
		return 0, err
	}
	after, took := done.Load(), time.Since(began)
	if after >= all {
		return 0, fmt.Errorf("all %d chunks were done before the time was over", all)
	}
	return float64(after-before) / took.Seconds(), nil
}

// Crew compares the one stream of all outside workers of a host with as many streams as
// there are workers, and with one to a host of as many slots.
func Crew(ctx context.Context, s *suite.Suite) error {
	n := s.Size.Crew
	var ours, many, one []float64
	measure := func(into *[]float64, open func(dir string) (*chunks, error)) func() error {
		return func() (err error) {
			dir, err := os.MkdirTemp(s.Dir, "crew-")
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
			c, err := open(dir)
			if err != nil {
				return err
			}
			v, err := c.rate(ctx, s.Size.Burst)
			*into = append(*into, v)
			return errors.Join(err, c.close())
		}
	}
	for i := range s.Size.Rounds + 1 {
		s.Progress("chunks of %d outside workers, round %d of %d", n, i, s.Size.Rounds)
		if i == 1 { // the first warmed up
			ours, many, one = nil, nil, nil
		}
		hosts := func(hosts int) func(string) (*chunks, error) {
			return func(dir string) (*chunks, error) { return byHosts(ctx, dir, hosts, n) }
		}
		if err := suite.InTurn(i, measure(&ours, func(dir string) (*chunks, error) { return byCrew(ctx, dir, n) }), func() error {
			return suite.InTurn(i, measure(&many, hosts(n)), measure(&one, hosts(1)))
		}); err != nil {
			return err
		}
	}
	name := fmt.Sprintf("chunks of %d outside workers at one host, on the disk, ", n)
	s.Add(suite.Series{
		Name: name + "against as many hosts", Unit: "chunks/s", Target: suite.Want("ratio", ">=", 0.5), Digest: suite.Median, Ours: ours, Peer: many,
		With: fmt.Sprintf("skein-work/1: %d hosts of one slot and room for two chunks, as the outside workers have, and a stream to each", n),
	})
	s.Add(suite.Series{
		Name: name + "against one host", Unit: "chunks/s", Digest: suite.Median, Ours: ours, Peer: one,
		With: fmt.Sprintf("skein-work/1: one host of %d slots and room for twice as many chunks, one stream, whose frames are of many chunks", n),
	})
	return nil
}
