package daemon

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"net"
	"time"

	"github.com/skein-project/skein/backend/convert"
	"github.com/skein-project/skein/backend/kept"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/eventlog"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/stamps"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/eventlog/wire"
	"github.com/skein-project/skein/internal/breaker"
	"github.com/skein-project/skein/internal/sysclock"
	"github.com/skein-project/skein/journal"
	"github.com/skein-project/skein/offline"
)

// history is the event log, and what this host writes in it.
type history struct {
	*eventlog.Log
	peers   *peers
	journal *journal.Journal
	beliefs *journal.Members // of the members, logged while this host holds
	gate    *journal.Gate
}

// openHistory opens the event log.
func (g *ground) openHistory(id *identity, p *peers) (*history, error) {
	h := &history{peers: p}
	h.journal = journal.New(journal.Options{
		Append: func(ctx context.Context, drafts []event.Draft) ([]event.Event, error) { return h.Append(ctx, drafts) },
		First:  func(ctx context.Context) error { return g.logForced(ctx, h) },
		Logger: g.log,
	})
	h.beliefs = journal.NewMembers(h.journal.NoteAll)
	h.gate = journal.NewGate(journal.GateOptions{
		Log:  func() journal.Stamped { return h },
		View: func() *coord.View { return p.svc.View() }, Tolerance: func() time.Duration { return g.conf().Tolerance },
		Boot: sysclock.Boot, Synced: g.synced, Opened: h.journal.Opened(), Logger: g.log,
	})
	dir := offline.LogDir(g.cfg.StateDir)
	if !id.first {
		if err := audit.Lost(dir); err != nil {
			return nil, err
		}
	}
	wall := g.o.Wall
	if wall == nil {
		wall = time.Now
	}
	var err error
	h.Log, err = eventlog.Open(eventlog.Options{
		Dir: dir, Cluster: id.Cluster.String(), Self: id.Node, Key: id.IDKey(),
		KeyOf: id.roster.KeyOf, OnEquivocation: h.onEquivocation, OnAhead: h.onAhead, MayAct: p.mayAct, Promised: p.voterTerm,
		Dial: p.dialer(wire.Proto), RTT: p.rtt, Follow: func(ctx context.Context, to cluster.NodeID) (net.Conn, error) {
			return p.relief.Dialer(breaker.Log, p.dialer(wire.Proto))(ctx, to) // it is made after the log
		},
		Peers: p.reachable, Near: func() []cluster.NodeID { return kept.Near(p.view()) },
		Said: p.logOf, Wall: g.o.Wall, Float: rand.Float64,
		Stamp:          journal.NewClock(wall, sysclock.Boot, func() bool { return journal.Agreed(p.svc.View(), g.conf().Tolerance) }, g.timing).Now,
		SegmentSize:    g.cfg.EventLog.SegmentBytes,
		SnapshotEvents: orNever(g.cfg.EventLog.SnapshotEvents),
		RetainBytes:    orNever(g.cfg.EventLog.RetainBytes),
		RetainAge:      time.Duration(g.cfg.EventLog.RetainDays) * 24 * time.Hour,
		IndexDir:       offline.IndexDir(g.cfg.StateDir),
		ArchiveDir:     g.cfg.EventLog.ArchiveDir, Paused: func() bool { return p.relief.Pauses() },
		LowWater: g.cfg.EventLog.LowWater, Reserve: g.cfg.EventLog.Reserve,
		MaxBytes: g.cfg.EventLog.MaxBytes, SourceBytes: g.cfg.EventLog.SourceBytes,
		OnPoison: func(error) { h.check() }, OnDisk: h.onDisk, FS: g.o.LogFS,
		Logger: g.log, Registerer: g.reg,
	})
	return h, err
}

// orNever turns 0, by which a configuration means never, into what the log means
// by it.
func orNever(n int64) int64 {
	if n == 0 {
		return -1
	}
	return n
}

// ownChain makes what confirms this host's chain of the log and begins it.
func (g *ground) ownChain(id *identity, h *history) *journal.Chain {
	return journal.NewChain(journal.ChainOptions{
		Self: id.Node, Log: h, Voters: h.peers.voters, Peers: h.peers.reachable, VoteLost: h.peers.svc.VoteLost,
		MayWrite: h.gate.MayWrite, Watch: h.gate.Watch,
		First: h.firstEvents(event.Draft{Kind: event.KindHostStarted, Body: event.HostStarted{Version: g.o.Version, Boot: id.boot}}),
		Open: func() {
			h.journal.Open()
			self, ok := id.roster.Self()
			if root, err := g.rootKey(id); err == nil && root != nil && ok {
				h.journal.NoteFounder(h, self, id.IDPub)
			}
		},
		Logger: g.log,
	})
}

// newMender makes what fetches what a repair of the log found missing.
func (g *ground) newMender(h *history) *journal.Mender {
	return journal.NewMender(journal.MenderOptions{
		Self: h.peers.self, Log: h, Voters: h.peers.voters, Peers: h.peers.reachable, VoteLost: h.peers.svc.VoteLost, Logger: g.log,
	})
}

// logForced logs once that this host was made the only voter.
func (g *ground) logForced(ctx context.Context, h *history) error {
	body, ok, err := offline.Forced(g.cfg.StateDir)
	if err != nil || !ok {
		return err
	}
	if len(body.Voters) == 0 { // the note was damaged
		body.Voters = []cluster.NodeID{h.peers.self}
	}
	previous := make([]string, len(body.Previous))
	for i, v := range body.Previous {
		previous[i] = string(v)
	}
	g.log.Warn().Str("actor", body.Actor).Strs("previous", previous).Msg("this host was made the only voter")
	if _, err = h.journal.Append(ctx, event.KindVotersSet, body); err != nil {
		return fmt.Errorf("log the forced voters: %w", err)
	}
	return offline.ForcedLogged(g.cfg.StateDir)
}

// Begin implements duty.Members: this host holds the lease with an open term.
func (h *history) Begin() {
	logged, believed := map[cluster.NodeID]cluster.Health{}, map[cluster.NodeID]journal.Belief{}
	h.View(func(s *state.State) {
		for _, m := range s.Members() {
			if m.Health != "" {
				logged[m.Node] = m.Health
			}
		}
	})
	for _, m := range h.peers.svc.View().Members {
		believed[m.Node] = journal.Belief{Health: m.Health, Stopped: m.Stopped}
	}
	h.beliefs.Begin(logged, believed)
}

// End implements duty.Members.
func (h *history) End() { h.beliefs.End() }

// onDuplicate records that two processes use the identity of a host.
func (h *history) onDuplicate(host cluster.NodeID, boot uint64) {
	h.journal.Note(event.KindDuplicate, event.Duplicate{Host: host, Boot: boot})
}

// onEquivocation records, once for the cluster, that a host signed two
// histories of its log.
func (h *history) onEquivocation(f wire.Fork, found bool) {
	if found {
		h.journal.Note(event.KindEquivocation, event.Equivocation{Source: f.Source, Seq: f.Seq})
	}
}

// onDisk is called when the room for the log changes.
func (h *history) onDisk(d disk.Report) {
	h.journal.Note(event.KindHostDisk, event.HostDisk{State: string(d.State), Free: d.Free, Log: d.Size})
	if h.Log != nil {
		h.check()
	}
}

// logCheck is the self-check of the event log: a host whose log cannot be
// written does not hold the lease.
const logCheck = "event log"

// check tells the lease whether this host's log can be written, and the others
// take what is written. It is called at once when it cannot, and periodically,
// because the log recovers by itself.
func (h *history) check() {
	if h.peers.svc == nil {
		return // not made yet; the next call is soon enough
	}
	reason := ""
	if err := h.Err(); err != nil {
		reason = err.Error()
	} else if d := h.Disk(); d.State == disk.Out {
		reason = convert.Room(d)
	} else {
		reason = h.gate.Fault()
	}
	h.peers.svc.SelfCheck(logCheck, reason)
}

// summary is what heartbeats say of the log.
func (h *history) summary() coord.LogState {
	s := coord.LogState{Digest: h.Digest()}
	for _, head := range h.Heads() {
		s.Events += head.Seq
	}
	return s
}

// settle waits until what this host has written by now survives its loss.
func (h *history) settle(ctx context.Context) error {
	var own event.Head
	for _, head := range h.Heads() {
		if head.Source.Node == h.peers.self && head.Source.Inc >= own.Source.Inc {
			own = head
		}
	}
	_, err := h.WaitStable(ctx, own.Seq)
	return err
}

// About are the events about a job, from the oldest that the log has.
func (h *history) About(ctx context.Context, id job.ID) iter.Seq2[event.Event, error] {
	return h.After(ctx, h.Oldest(), store.Filter{About: event.Subject{Job: string(id)}})
}

// lastTerm is the highest term in the log.
func (h *history) lastTerm() (term cluster.Term) {
	h.View(func(s *state.State) {
		if t, ok := s.LastTerm(); ok {
			term = t.Term
		}
	})
	return term
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
