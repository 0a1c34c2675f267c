package backend

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/convert"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/internal/wait"
)

// Times of the checks of the whole log.
const (
	// logCheckTime bounds one check; it is enough for a log of a terabyte.
	logCheckTime = 2 * time.Hour
	// logCheckEvery is the period of the checks that nobody asks for, and logCheckRate
	// how many events per second they read, so as not to slow the host down.
	logCheckEvery = 24 * time.Hour
	logCheckRate  = 20_000
	// logCheckAgain is when one is tried again that had to wait.
	logCheckAgain = time.Minute
	// livePause is the time between tries to find the daemon's state at rest.
	livePause = 50 * time.Millisecond
)

// checkedLog is a log that can be checked as a whole.
type checkedLog interface {
	hashedLog
	Heads() []event.Head
	Position() event.Cursor
	Verify(ctx context.Context, progress func(events uint64)) (audit.Report, error)
}

// logChecks checks the whole log of this host, one check at a time: when asked
// to, and slowly once a day.
type logChecks struct {
	self   cluster.NodeID
	log    checkedLog
	hash   *stateHash
	paused func() bool // the host has too much to do: the daily check waits
	logger zerolog.Logger
	// asked wakes run; capacity 1, since one waiting request is enough.
	asked chan struct{}

	mu   sync.Mutex
	runs uint64
	now  *api.LogCheck // running, or about to run
	last *api.LogCheck // the last one that ended
}

func newLogChecks(self cluster.NodeID, log checkedLog, hash *stateHash, paused func() bool, logger zerolog.Logger) *logChecks {
	return &logChecks{self: self, log: log, hash: hash, paused: paused, logger: logger, asked: make(chan struct{}, 1)}
}

// join returns what is known of a run; with run 0 of the one that is running, which
// it starts if there is none and mayStart allows it.
func (c *logChecks) join(run uint64, mayStart func() error) (api.LogCheck, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range []*api.LogCheck{c.now, c.last} {
		if r != nil && (r.Run == run || run == 0 && r.Running) {
			return *r, nil
		}
	}
	if run != 0 {
		return api.LogCheck{}, api.Errorf(api.CodeNotFound, "%s has no check %d of its log", c.self, run).
			WithHint("the daemon was restarted, or another check came after it: begin again")
	}
	if err := mayStart(); err != nil {
		return api.LogCheck{}, err
	}
	c.begin()
	select {
	case c.asked <- struct{}{}:
	default:
	}
	return *c.now, nil
}

// begin makes the record of the next run. The caller holds mu.
func (c *logChecks) begin() {
	c.runs++
	c.now = &api.LogCheck{
		Host: c.self, Run: c.runs, Running: true, StartedAt: time.Now().UTC(), TotalEvents: events(c.log),
	}
}

// ended returns the last check that ended, nil if none has.
func (c *logChecks) ended() *api.LogCheck {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// run carries out checks until ctx ends.
func (c *logChecks) run(ctx context.Context) error {
	tick := time.NewTimer(logCheckEvery)
	defer tick.Stop()
	for {
		slow := false
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.asked:
		case <-tick.C:
			if c.paused() {
				tick.Reset(logCheckAgain)
				continue
			}
			tick.Reset(logCheckEvery)
			c.mu.Lock()
			if slow = c.now == nil; slow {
				c.begin()
			}
			c.mu.Unlock()
		}
		c.check(ctx, slow)
	}
}

// check carries out the run that was begun.
func (c *logChecks) check(ctx context.Context, slow bool) {
	limited, cancel := context.WithTimeout(ctx, logCheckTime)
	defer cancel()
	began := time.Now()
	report, err := c.log.Verify(limited, func(events uint64) {
		c.mu.Lock()
		c.now.DoneEvents = events
		c.mu.Unlock()
		if slow {
			_ = wait.For(limited, time.Duration(events)*time.Second/logCheckRate-time.Since(began)) // the check itself ends with it
		}
	})
	result, failed := convert.LogVerify(report, err)
	var live *cluster.Hash
	if failed == nil && result.OK {
		live = c.liveHash(limited, report.Ends)
	}
	c.mu.Lock()
	done := *c.now
	c.mu.Unlock()
	done.Running, done.EndedAt, done.DoneEvents = false, new(time.Now().UTC()), report.Events
	done.LiveStateHash = live
	if failed != nil {
		done.Error = failed.Error()
	} else {
		done.Result = &result
	}
	if bad := done.Bad(); bad != "" && ctx.Err() == nil { // else the daemon stops in the middle of it
		c.logger.Error().Str("err", bad).Float64("dur_seconds", time.Since(began).Seconds()).Msg("event log not sound")
	} else if bad == "" {
		c.logger.Debug().Uint64("events", report.Events).Float64("dur_seconds", time.Since(began).Seconds()).Msg("event log checked")
	}
	c.mu.Lock()
	c.now, c.last = nil, &done
	c.mu.Unlock()
}

// liveHash is the hash of the state that the daemon works with, if it holds
// exactly the events up to ends; nil if the log moves on.
func (c *logChecks) liveHash(ctx context.Context, ends event.Cut) *cluster.Hash {
	at := ends.Cursor().String()
	for range 3 {
		if c.log.Position().String() != at {
			return nil
		}
		before := c.log.Digest()
		hash := c.hash.now(c.log)
		_ = wait.For(ctx, livePause) // the fold may be ahead of the heads for a moment
		if c.log.Digest() == before && c.hash.now(c.log) == hash {
			return &hash
		}
	}
	return nil
}

// CheckLog implements status.EventReader.
func (l *logs) CheckLog(ctx context.Context, node cluster.NodeID, run uint64) (api.LogCheck, error) {
	if node == "" || node == l.self {
		return l.checks.join(run, func() error { return nil })
	}
	if _, ok := l.roster.Member(node); !ok {
		return api.LogCheck{}, api.NoMember(node)
	}
	out, err := forward.AskHost(ctx, l.remote, forward.CheckLog, node, "", forward.LogCheckRun{Run: run})
	out.Header = api.Header{}
	return out, err
}

// checkLogFor answers another member, which asks for a check of this host's
// log.
func (l *logs) checkLogFor(_ context.Context, by forward.Asker, req forward.LogCheckRun) (api.LogCheck, error) {
	return l.checks.join(req.Run, by.Spend)
}
