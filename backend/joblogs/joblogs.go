package joblogs

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/worker/words"
)

// Bounds of asking.
const (
	atOnce   = 8                // hosts that are asked at a time
	hostTime = 30 * time.Second // for what one host keeps
	readTime = 10 * time.Second // for what the cluster kept of one failure
	lookTime = time.Second      // between two looks at who has attempts
	// lastTime is how long hosts may take to tell the last words of a job that has ended.
	lastTime = 3 * time.Second
	// maxSeen bounds the attempts that a follower is not told of again.
	maxSeen = 1 << 16
)

// Log is the event log of this host.
type Log interface {
	View(func(*state.State))
}

// Options of Logs. All must be set.
type Options struct {
	Self cluster.NodeID
	Log  Log
	Ring *words.Ring
	// Members lists the hosts that can be asked, this one too.
	Members func() []cluster.NodeID
	// Read reads what the cluster kept of a failure.
	Read   func(ctx context.Context, h cluster.Hash, limit int64) ([]byte, error)
	Remote *forward.Router
}

// Logs tells what attempts wrote. Its methods may be called from any goroutine.
type Logs struct{ o Options }

// New returns Logs.
func New(o Options) *Logs { return &Logs{o: o} }

// telling is one reader.
type telling struct {
	*Logs
	wanted forward.JobLogsWanted

	mu   sync.Mutex
	send func(api.JobLog) error
	err  error                // of send: nothing is sent any more
	seen map[job.Attempt]bool // attempts that were told to their end
}

// JobLogs implements status/joblogs.Source: it passes to send what is kept, and goes on
// until the job has ended if it is followed.
func (l *Logs) JobLogs(ctx context.Context, id job.ID, q api.JobLogQuery, send func(api.JobLog) error) error {
	t := &telling{
		Logs: l, send: send, seen: map[job.Attempt]bool{},
		wanted: forward.JobLogsWanted{Job: id, Chunk: q.Chunk, Attempt: q.Attempt, Failed: q.Failed},
	}
	if q.Follow {
		return t.follow(ctx)
	}
	t.read(ctx, l.o.Members())
	t.short(ctx)
	return t.failed(ctx)
}

func (t *telling) failed(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Join(t.err, ctx.Err())
}

// tell sends a line, unless its attempt was told before.
func (t *telling) tell(line api.JobLog) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return t.err
	}
	a := job.Attempt{Job: line.Job, Chunk: line.Chunk, Number: line.Attempt, Worker: line.Worker}
	if line.Problem == "" {
		if t.seen[a] {
			return nil
		}
		if !line.Running && len(t.seen) < maxSeen {
			t.seen[a] = true
		}
	}
	t.err = t.send(line)
	return t.err
}

// read tells what hosts keep.
func (t *telling) read(ctx context.Context, hosts []cluster.NodeID) {
	var all sync.WaitGroup
	tokens := make(chan struct{}, atOnce)
	for _, n := range hosts {
		tokens <- struct{}{}
		all.Go(func() {
			defer func() { <-tokens }()
			ctx, cancel := context.WithTimeout(ctx, hostTime)
			defer cancel()
			t.ask(ctx, n, t.wanted)
		})
	}
	all.Wait()
}

// ask has one host tell, and tells why it does not.
func (t *telling) ask(ctx context.Context, n cluster.NodeID, wanted forward.JobLogsWanted) {
	err := forward.FollowHost(ctx, t.o.Remote, forward.JobLogs, n, "", wanted, func(line api.JobLog) error {
		line.Worker = n // whatever it says
		return t.tell(line)
	})
	if err != nil && t.failed(ctx) == nil {
		_ = t.tell(api.JobLog{Job: t.wanted.Job, Worker: n, Problem: job.ReasonOf(err)}) // failed tells
	}
}

// short tells what the cluster kept of failures that no host told.
func (t *telling) short(ctx context.Context) {
	for _, x := range t.kept() {
		if t.failed(ctx) != nil {
			return
		}
		line := api.JobLog{Job: x.Job, Chunk: x.Chunk, Attempt: x.Number, Worker: x.Worker, Short: true}
		reading, cancel := context.WithTimeout(ctx, readTime)
		text, err := t.o.Read(reading, x.Log, words.MaxShort)
		cancel()
		if line.Text = string(text); err != nil {
			line.Text, line.Error = "", "its words are lost: "+job.ReasonOf(err)
		}
		_ = t.tell(line) // failed tells
	}
}

// kept lists the failures of which the cluster kept something and that no host told.
func (t *telling) kept() []state.Logged {
	var list []state.Logged
	t.o.Log.View(func(s *state.State) { list = s.JobLogs(t.wanted.Job) })
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.DeleteFunc(list, func(x state.Logged) bool { return t.seen[x.Attempt] || !wants(t.wanted, x.Attempt, true) })
}

// follow tells what is kept, and what is added until the job has ended.
func (t *telling) follow(ctx context.Context) error {
	wanted := t.wanted
	wanted.Follow = true
	following, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	var mu sync.Mutex
	followed := map[cluster.NodeID]bool{}
	open := func() (ended bool) {
		var hosts []cluster.NodeID
		t.o.Log.View(func(s *state.State) { hosts, ended = busy(s, t.wanted.Job) })
		mu.Lock()
		defer mu.Unlock()
		for _, n := range hosts {
			if followed[n] {
				continue
			}
			followed[n] = true
			all.Go(func() {
				t.ask(following, n, wanted)
				mu.Lock()
				defer mu.Unlock()
				delete(followed, n) // once more if it still has something, as after a restart
			})
		}
		return ended
	}
	open()
	mu.Lock()
	others := slices.DeleteFunc(t.o.Members(), func(n cluster.NodeID) bool { return followed[n] })
	mu.Unlock()
	t.read(ctx, others)
	for !open() {
		if t.failed(ctx) != nil || wait.For(ctx, lookTime) != nil {
			return t.failed(ctx)
		}
	}
	last := time.AfterFunc(lastTime, stop)
	defer last.Stop()
	all.Wait()
	t.short(ctx)
	return t.failed(ctx)
}

// busy lists the hosts with attempts at a job, and says whether it has ended.
func busy(s *state.State, id job.ID) (hosts []cluster.NodeID, ended bool) {
	j, ok := s.Job(id)
	for _, c := range s.Open(id) {
		for _, a := range c.Open {
			if !cluster.IsOutside(a.Worker) && !slices.Contains(hosts, a.Worker) {
				hosts = append(hosts, a.Worker)
			}
		}
	}
	return hosts, !ok || j.State.Final()
}

// wants reports whether the words of an attempt are wanted.
func wants(w forward.JobLogsWanted, a job.Attempt, failed bool) bool {
	return (w.Chunk == nil || *w.Chunk == a.Chunk) && (w.Attempt == 0 || w.Attempt == a.Number) && (failed || !w.Failed)
}
