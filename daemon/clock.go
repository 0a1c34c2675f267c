package daemon

import (
	"context"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/eventlog/stamps"
	"github.com/skein-project/skein/offline"
)

const (
	// holdShown is how long a host waits for its clock before that is a fault: in
	// a start that goes well the others are heard sooner.
	holdShown = 5 * time.Second
	// tailEvery is the period of the look whether a chain that runs ahead can be
	// taken back, tailTry bounds it.
	tailEvery = 5 * time.Second
	tailTry   = 2 * time.Second
)

// stampGate decides whether this host may write events, by its clock, and when it
// must take some back. It belongs to the stage "own chain".
type stampGate struct {
	g *ground
	h *history

	// On the boot-time clock: when the wait began, since when the clock agrees
	// with a majority (0: it does not), and when the tail was looked at last.
	began, agreed, looked time.Duration

	fault atomic.Pointer[string] // why the others take nothing of this host; nil: they do
}

func newStampGate(g *ground, h *history) *stampGate {
	return &stampGate{g: g, h: h, began: bootTime()}
}

// mayWrite says why nothing may be written yet, empty if it may.
func (s *stampGate) mayWrite() (why string) {
	f := s.facts()
	if why = stamps.MayWrite(f); why == "" {
		why = s.ownAhead(f)
	}
	if why != "" && f.Waited < holdShown {
		s.say("")
	} else {
		s.say(why)
	}
	return why
}

func (s *stampGate) say(fault string) {
	if fault == "" {
		s.fault.Store(nil)
		return
	}
	s.fault.Store(&fault)
}

// said is why the others take nothing of this host, empty if they do.
func (s *stampGate) said() string {
	if fault := s.fault.Load(); fault != nil {
		return *fault
	}
	return ""
}

// facts gathers what is known of the clock.
func (s *stampGate) facts() stamps.Facts {
	now := bootTime()
	f := poll(s.h.peers.svc.View(), s.g.conf().Tolerance)
	f.Synced, f.Booted, f.Waited = s.g.synced(), now, now-s.began
	last, some := s.h.Newest()
	f.Last, f.Empty = last, !some
	return f
}

// poll counts the hosts whose clocks speak for the own one or against it: voters
// where a majority of them is needed, else all members.
func poll(v *coord.View, tolerance time.Duration) (f stamps.Facts) {
	cfg := v.Lease.Config
	if !cfg.IsZero() && cfg.Mode != cluster.ModeAvailable {
		if f.Need = cfg.Majority(); cfg.Has(v.Self) {
			f.Need--
		}
	}
	for _, m := range v.Members {
		if m.Node == v.Self || f.Need > 0 && !cfg.Has(m.Node) {
			continue
		}
		f.Others++
		switch {
		case !m.SkewKnown:
		case m.Skew.Abs() <= tolerance:
			f.Agree++
		default:
			f.Differ, f.Offset = f.Differ+1, m.Skew
		}
	}
	return f
}

// ownAhead says that the own chain runs ahead, where others must take it for
// anything to be stable.
func (s *stampGate) ownAhead(f stamps.Facts) string {
	if f.Need > 0 {
		for _, c := range s.h.Ahead() {
			if c.Own {
				return c.String()
			}
		}
	}
	return ""
}

// watch returns a *takeBackError once the own chain runs ahead, the clock is right
// and what runs ahead may be taken back.
func (s *stampGate) watch(ctx context.Context) error {
	now, f := bootTime(), s.facts()
	f.Waited = 0 // patience is no agreement
	switch {
	case f.Agree == 0 || stamps.MayWrite(f) != "":
		s.agreed = 0
		return nil
	case s.agreed == 0:
		s.agreed = now
	}
	select {
	case <-s.h.journal.Opened():
		s.say(s.ownAhead(f))
	default: // mayWrite does
	}
	if now-s.looked < tailEvery || !slices.ContainsFunc(s.h.Ahead(), func(c stamps.Chain) bool { return c.Own }) {
		return nil
	}
	s.looked = now
	ctx, cancel := context.WithTimeout(ctx, tailTry)
	defer cancel()
	tail, cuts, err := s.h.Tail(ctx)
	if err != nil {
		s.g.log.Warn().Err(err).Msg("own chain runs ahead and cannot be read")
		return nil
	}
	tail.Agreed = now - s.agreed
	if why := stamps.TakeBack(tail); why != "" || len(cuts) == 0 {
		s.g.log.Warn().Str("reason", why).Float64("ahead_seconds", tail.Ahead.Seconds()).Msg("own chain runs ahead, and is not taken back")
		return nil
	}
	return &takeBackError{cuts: cuts}
}

// takeBackError ends a run of the daemon that has to take back what it wrote with
// a wrong clock.
type takeBackError struct{ cuts []audit.Cut }

func (*takeBackError) Error() string {
	return "what was written with a wrong clock is to be taken back"
}

// takeBack takes back what e says; the log is closed. It returns e, so that the
// daemon starts again, unless that failed.
func (d *daemon) takeBack(e *takeBackError) error {
	_, err := audit.TakeBack(audit.RepairOptions{
		Dir: offline.LogDir(d.cfg.StateDir), Cluster: d.id.Cluster.String(), Self: d.id.Node, KeyOf: d.id.roster.KeyOf,
		Aside: filepath.Join(d.cfg.StateDir, offline.DamagedDir), Now: time.Now(),
	}, e.cuts)
	if err != nil {
		return err
	}
	for _, c := range e.cuts {
		d.log.Warn().Str("source", c.Source.String()).Uint64("seq", c.Kept).Str("reason", c.Reason).
			Msg("the rest of the own chain is taken back; starting again with a new one")
	}
	return e
}

// firstEvents are what this host writes first: the facts that it took back, and
// that it started.
func (h *history) firstEvents(started event.Draft) func() ([]event.Draft, error) {
	return func() ([]event.Draft, error) {
		drafts, err := h.TakenBack()
		return append(drafts, started), err
	}
}

// onAhead records that a chain of another host runs ahead.
func (h *history) onAhead(c stamps.Chain) {
	h.journal.Note(event.KindChainAhead, event.ChainAhead{Source: c.Source, Seq: c.Seq, Seconds: c.Ahead.Seconds()})
}
