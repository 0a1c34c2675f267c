package daemon

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog"
)

// Times of the checks of the whole log.
const (
	// logCheckTime bounds one check: a log of a terabyte takes so long.
	logCheckTime = 2 * time.Hour
	// logCheckEvery is the period of the check that nobody asks for, and logCheckRate
	// how many events a second it reads: it must not be felt.
	logCheckEvery = 24 * time.Hour
	logCheckRate  = 20_000
	// livePause lies between tries to find the daemon's state at rest.
	livePause = 50 * time.Millisecond
)

// logChecks checks the whole log of this host, one check at a time: when asked
// to, and slowly once a day.
type logChecks struct {
	n *node
	// asked wakes run; capacity 1, one that waits is enough.
	asked chan struct{}

	mu   sync.Mutex
	runs uint64
	now  *api.LogCheck // running, or about to
	last *api.LogCheck // the one that ended last
}

func newLogChecks(n *node) *logChecks { return &logChecks{n: n, asked: make(chan struct{}, 1)} }

// join returns what is known of a run, or with 0 of one that it starts unless
// one is running.
func (c *logChecks) join(run uint64, mayStart func() *api.Problem) (api.LogCheck, *api.Problem) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range []*api.LogCheck{c.now, c.last} {
		if r != nil && (r.Run == run || run == 0 && r.Running) {
			return *r, nil
		}
	}
	if run != 0 {
		return api.LogCheck{}, api.Errorf(api.CodeNotFound, "%s has no check %d of its log", c.n.id.Node, run).
			WithHint("the daemon was restarted, or another check came after it: begin again")
	}
	if p := mayStart(); p != nil {
		return api.LogCheck{}, p
	}
	c.begin()
	select {
	case c.asked <- struct{}{}:
	default:
	}
	return *c.now, nil
}

// begin makes the record of the next run. mu is held.
func (c *logChecks) begin() {
	c.runs++
	c.now = &api.LogCheck{
		Host: c.n.id.Node, Run: c.runs, Running: true, StartedAt: time.Now().UTC(), TotalEvents: c.n.ownEvents(),
	}
}

// ended returns the check that ended last, nil if none has.
func (c *logChecks) ended() *api.LogCheck {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// run carries out checks until ctx ends.
func (c *logChecks) run(ctx context.Context) error {
	tick := time.NewTicker(logCheckEvery)
	defer tick.Stop()
	for {
		slow := false
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.asked:
		case <-tick.C:
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
	ctx, cancel := context.WithTimeout(ctx, logCheckTime)
	defer cancel()
	began := time.Now()
	report, err := c.n.events.VerifyProgress(ctx, func(events uint64) {
		c.mu.Lock()
		c.now.DoneEvents = events
		c.mu.Unlock()
		if slow {
			rest(ctx, time.Duration(events)*time.Second/logCheckRate-time.Since(began))
		}
	})
	result, failed := verified(report, err)
	var live *cluster.Hash
	if failed == nil && result.OK {
		live = c.n.liveHash(ctx, report.Ends)
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
	if bad := done.Bad(); bad != "" {
		c.n.log.Error().Str("err", bad).Float64("dur_seconds", time.Since(began).Seconds()).Msg("event log not sound")
	} else {
		c.n.log.Debug().Uint64("events", report.Events).Float64("dur_seconds", time.Since(began).Seconds()).Msg("event log checked")
	}
	c.mu.Lock()
	c.now, c.last = nil, &done
	c.mu.Unlock()
}

// rest waits for d, if that is in the future, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// liveHash is the hash of the state that the daemon works with, if it holds
// exactly the events up to ends; nil if the log moves on.
func (n *node) liveHash(ctx context.Context, ends cluster.Cut) *cluster.Hash {
	at := ends.Cursor().String()
	for range 3 {
		if n.events.Position().String() != at {
			return nil
		}
		before := n.events.Digest()
		hash := n.stateHash()
		rest(ctx, livePause) // the fold runs ahead of the heads for a moment
		if n.events.Digest() == before && n.stateHash() == hash {
			return &hash
		}
	}
	return nil
}

// verified turns a report into what the API shows; an error means that the log
// could not be checked.
func verified(report eventlog.Report, err error) (api.LogVerify, error) {
	out := api.LogVerify{
		OK: err == nil, Events: report.Events, SizeBytes: uint64(max(0, report.Bytes)), Segments: report.Segments,
		TornBytes: uint64(max(0, report.TornBytes)), Signatures: report.Heads, Unsigned: report.Unchecked,
		Snapshots: report.Snapshots, Signers: report.Signers, DroppedEvents: report.Dropped, Forked: []cluster.SourceID{},
		StateHash: report.StateHash, Sources: []api.LogSource{},
	}
	for _, f := range report.Forks {
		out.Forked = append(out.Forked, f.Source)
	}
	for _, h := range report.Ends {
		out.Sources = append(out.Sources, api.LogSource{Source: h.Source, Seq: h.Seq, Hash: h.Hash})
	}
	if corrupt, ok := errors.AsType[*eventlog.CorruptError](err); ok {
		out.Problem, out.Hint = corrupt.Error(), corrupt.Hint()
		out.BadSource, out.BadSeq = &corrupt.Source, corrupt.Seq
		return out, nil
	}
	return out, err
}

// CheckLog implements status.EventReader.
func (b backend) CheckLog(ctx context.Context, node cluster.NodeID, run uint64) (api.LogCheck, error) {
	if node == "" || node == b.id.Node {
		return orProblem(b.checks.join(run, func() *api.Problem { return nil }))
	}
	if _, ok := b.member(node); !ok {
		return api.LogCheck{}, noMember(node)
	}
	reply, err := b.ask(ctx, node, remoteRequest{CheckLog: &checkLog{Run: run}}, false)
	if err != nil {
		return api.LogCheck{}, api.Errorf(api.CodeNotReady, "%s not reached: %v", node, err).WithHint("see `skein mesh`")
	}
	if reply.Problem != nil {
		return api.LogCheck{}, reply.Problem
	}
	reply.Check.Header = api.Header{}
	return *reply.Check, nil
}

func orProblem[T any](v T, p *api.Problem) (T, error) {
	if p != nil {
		return v, p
	}
	return v, nil
}

// checkLogFor answers member from, which asks for a check of this host's log.
func (n *node) checkLogFor(from cluster.NodeID, req checkLog) remoteReply {
	c, p := n.checks.join(req.Run, func() *api.Problem { return n.spare(from, favourCheck) })
	if p != nil {
		return remoteReply{Problem: p}
	}
	return remoteReply{Check: &c}
}
