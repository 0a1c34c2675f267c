package jobwatch

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/forward"
)

// host is one with a log that says what the test wants.
type host struct {
	*Hub
	router  *forward.Router
	served  atomic.Int64 // streams that its Hub has begun
	mu      sync.Mutex
	job     api.Job
	changed chan struct{}
}

func (h *host) set(accepted int, state job.State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.job.Chunks.Accepted, h.job.State = accepted, state
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *host) look(_ context.Context, id job.ID) (api.Job, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if id != "j" {
		return api.Job{}, api.Errorf(api.CodeNotFound, "no job %s", id)
	}
	return h.job, nil
}

func (h *host) moved() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed
}

// two returns a holder and another host.
func two(t *testing.T, up *atomic.Bool) (holder, other *host) {
	t.Helper()
	make1 := func(self cluster.NodeID, dial func(context.Context, cluster.NodeID) (net.Conn, error)) (*host, *forward.Router) {
		h := &host{changed: make(chan struct{})}
		h.job.ID, h.job.State = "j", job.Running
		r, err := forward.New(forward.Options{Self: self, Dial: dial, Lease: func() forward.Lease {
			return forward.Lease{Holder: "n1", Holding: self == "n1"}
		}})
		if err != nil {
			t.Fatal(err)
		}
		h.Hub = New(Options{Job: h.look, Changed: h.moved, Elsewhere: func() bool { return self != "n1" }, Router: r})
		forward.HandleStream(r, forward.FollowJob, func(ctx context.Context, by forward.Asker, req forward.JobName, send func(api.Job) error) error {
			h.served.Add(1)
			return h.Serve(ctx, by, req, send)
		})
		forward.HandleStream(r, forward.FollowJobNear, h.ServeNear)
		h.router = r
		return h, r
	}
	holder, r := make1("n1", nil)
	other, _ = make1("n2", func(context.Context, cluster.NodeID) (net.Conn, error) {
		if !up.Load() {
			return nil, net.ErrClosed
		}
		near, far := net.Pipe()
		go func() {
			r.Serve(context.Background(), "n2", far)
			far.Close()
		}()
		return near, nil
	})
	return holder, other
}

func (w *Watch) is(t *testing.T, accepted int, state job.State) {
	t.Helper()
	j, err := w.Job(t.Context())
	if err != nil || j.Chunks.Accepted != accepted || j.State != state {
		t.Errorf("%d accepted, %s, want %d, %s: %v", j.Chunks.Accepted, j.State, accepted, state, err)
	}
}

// TestWatch: a host whose log is behind shows what the holder knows; the end
// is told when its own log has it.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		up.Store(true)
		holder, other := two(t, &up)
		w, second := other.Watch("j"), other.Watch("j")
		w.is(t, 0, job.Running)
		changed := w.Changed()
		holder.set(7, job.Running)
		<-changed
		time.Sleep(paceMin)
		synctest.Wait()
		w.is(t, 7, job.Running)
		second.is(t, 7, job.Running)
		if n := holder.served.Load(); n != 1 {
			t.Errorf("the holder sends it %d times", n)
		}
		other.set(8, job.Running) // its log was faster for once
		w.is(t, 8, job.Running)
		holder.set(9, job.Completed)
		time.Sleep(paceMax)
		w.is(t, 8, job.Running)
		other.set(9, job.Completed)
		w.is(t, 9, job.Completed)
		w.Close()
		w.Close()
		second.Close()
		if len(other.jobs) != 0 {
			t.Error("still watched")
		}
	})
}

// TestWatchWithoutHolder: while the holder is not reached the own log has to
// do; afterwards the holder is asked again.
func TestWatchWithoutHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		holder, other := two(t, &up)
		holder.set(7, job.Running)
		w := other.Watch("j")
		defer w.Close()
		time.Sleep(time.Hour)
		w.is(t, 0, job.Running)
		other.set(3, job.Running)
		w.is(t, 3, job.Running)
		up.Store(true)
		time.Sleep(retryMax)
		synctest.Wait()
		w.is(t, 7, job.Running)
	})
}

// TestWatchAtTheHolder asks nobody.
func TestWatchAtTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		holder, _ := two(t, &up)
		w := holder.Watch("j")
		defer w.Close()
		time.Sleep(time.Hour)
		holder.set(5, job.Running)
		w.is(t, 5, job.Running)
		if n := holder.served.Load(); n != 0 {
			t.Errorf("it sends the job to itself %d times", n)
		}
	})
}

// TestWatchOfNoJob: what the holder does not know either is told by the own
// log.
func TestWatchOfNoJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		up.Store(true)
		_, other := two(t, &up)
		w := other.Watch("other")
		defer w.Close()
		time.Sleep(time.Minute)
		if _, err := w.Job(t.Context()); !api.IsCode(err, api.CodeNotFound) {
			t.Error(err)
		}
	})
}

// relay is a Relay that is told whom to name.
type relay struct {
	mu    sync.Mutex
	first cluster.NodeID
	errs  int
}

func (r *relay) ToHolder() (cluster.NodeID, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first, r.first != ""
}

func (r *relay) Answered(_ cluster.NodeID, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.first, r.errs = "", r.errs+1
	}
}

// TestWatchNear: a host of a zone follows the one that follows the holder for it, and the
// holder itself once that one does not answer.
func TestWatchNear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		up.Store(true)
		holder, near := two(t, &up)
		var known relay
		known.first = "n2"
		var down atomic.Bool
		third := &host{changed: make(chan struct{})}
		third.job.ID, third.job.State = "j", job.Running
		routers := map[cluster.NodeID]*forward.Router{"n1": holder.router, "n2": near.router}
		r, err := forward.New(forward.Options{
			Self: "n3", Lease: func() forward.Lease { return forward.Lease{Holder: "n1"} },
			Dial: func(_ context.Context, to cluster.NodeID) (net.Conn, error) {
				if to == "n2" && down.Load() {
					return nil, net.ErrClosed
				}
				a, b := net.Pipe()
				go func() {
					routers[to].Serve(context.Background(), "n3", b)
					b.Close()
				}()
				return a, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		third.Hub = New(Options{Job: third.look, Changed: third.moved, Elsewhere: func() bool { return true }, Relay: &known, Router: r})
		w := third.Watch("j")
		time.Sleep(paceMin)
		holder.set(7, job.Running)
		time.Sleep(3 * paceMax)
		w.is(t, 7, job.Running)
		if n := holder.served.Load(); n != 1 {
			t.Errorf("the holder sends it %d times", n)
		}
		w.Close()
		time.Sleep(paceMax)
		near.Hub.mu.Lock()
		n := len(near.jobs)
		near.Hub.mu.Unlock()
		if n != 0 {
			t.Error("the relay watches it still")
		}
		down.Store(true)
		w = third.Watch("j")
		defer w.Close()
		holder.set(9, job.Running)
		time.Sleep(4 * paceMax)
		w.is(t, 9, job.Running)
		if n := holder.served.Load(); n != 2 || known.errs != 1 {
			t.Errorf("the holder sends it %d times, %d errors", n, known.errs)
		}
	})
}
