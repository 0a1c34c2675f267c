package membership

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/forward"
)

// ConflictOptions are what Conflicts need.
type ConflictOptions struct {
	// Table shows the table of membership records.
	Table func(ctx context.Context, look func(*member.Table)) error
	// Report brings a conflict to the holder.
	Report func(ctx context.Context, c event.MemberConflict) error
	// Note queues an event for the log.
	Note   func(event.Kind, any)
	Logger zerolog.Logger
}

// Conflicts has records that contradict each other written to the log. It is safe for concurrent use.
type Conflicts struct {
	o ConflictOptions
	// queue has those that wait for the holder; when it is full the newest is
	// dropped.
	queue chan event.MemberConflict

	mu   sync.Mutex
	kept []string // disputes that this host logged as holder
}

// NewConflicts returns Conflicts that report nothing until Run runs.
func NewConflicts(o ConflictOptions) *Conflicts {
	return &Conflicts{o: o, queue: make(chan event.MemberConflict, conflictsSize)}
}

// conflictTime bounds one report to the holder.
const conflictTime = 10 * time.Second

// Seen queues what this host found among the records, for the holder.
func (c *Conflicts) Seen(evidence []member.Evidence) {
	for _, e := range evidence {
		select {
		case c.queue <- event.MemberConflict{Node: e.Node, Why: e.Word(), Kept: e.Kept.String(), Other: e.Other.String()}:
		default: // they stay in the table, where doctor finds them
			c.o.Logger.Warn().Str("peer", string(e.Node)).Msg("contradiction not reported: queue full")
		}
	}
}

// conflictsSize is how many contradictions may wait for the holder.
const conflictsSize = 64

// Run brings contradictions to the holder, which writes each down once, though
// many hosts may see it; until ctx ends.
func (c *Conflicts) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case one := <-c.queue:
			try, cancel := context.WithTimeout(ctx, conflictTime)
			err := c.o.Report(try, one)
			cancel()
			if err != nil && ctx.Err() == nil {
				c.o.Logger.Warn().Err(err).Str("peer", string(one.Node)).Msg("contradiction not reported to the holder")
			}
		}
	}
}

// Bounds of a report that the holder accepts, and of the disputes that it
// remembers to have logged.
const (
	maxConflictText  = 2048 // one record with its signature, in text form
	maxConflictsKept = 256
)

// Accept is the holder's part: it logs a contradiction that a member reports, if
// the records prove it and this host has not logged that dispute before.
func (c *Conflicts) Accept(ctx context.Context, by forward.Asker, one event.MemberConflict) (done forward.None, err error) {
	e, ok := evidenceOf(one)
	if !ok {
		return done, api.Errorf(api.CodeInvalidRequest, "not a contradiction as hosts report it")
	}
	about := e.About()
	if c.noted(about, false) {
		return done, nil
	}
	if err := by.Spend(); err != nil {
		return done, err
	}
	proven := false
	if err := c.o.Table(ctx, func(t *member.Table) { proven = t.Proves(e) }); err != nil {
		return done, api.Errorf(api.CodeInternal, "%v", err)
	}
	if !proven {
		c.o.Logger.Warn().Str("from", string(by.From)).Str("peer", string(one.Node)).Msg("a member reported a contradiction that the records do not prove")
		return done, api.Errorf(api.CodeInvalidRequest, "the records do not prove a contradiction")
	}
	if !c.noted(about, true) {
		c.o.Note(event.KindMemberConflict, one)
	}
	return done, nil
}

// evidenceOf parses c as evidence; nothing of it is verified yet.
func evidenceOf(c event.MemberConflict) (member.Evidence, bool) {
	e := member.Evidence{Node: c.Node}
	switch c.Why {
	case member.WhyForked:
		e.Why = member.ErrForked
	case member.WhyConflict:
		e.Why = member.ErrConflict
	default:
		return e, false
	}
	if max(len(c.Kept), len(c.Other)) > maxConflictText {
		return e, false
	}
	var err1, err2 error
	e.Kept, err1 = member.ParseSigned(c.Kept)
	e.Other, err2 = member.ParseSigned(c.Other)
	return e, err1 == nil && err2 == nil
}

// noted reports whether a dispute is remembered, and remembers it if asked to.
// When there are too many, the oldest is forgotten.
func (c *Conflicts) noted(about string, remember bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := slices.Contains(c.kept, about)
	if remember && !known {
		c.kept = append(c.kept, about)
		if extra := len(c.kept) - maxConflictsKept; extra > 0 {
			c.kept = slices.Delete(c.kept, 0, extra)
		}
	}
	return known
}
