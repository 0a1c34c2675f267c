package sim

import (
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/lease"
)

// node is one host: its lease core, its disk and the modelled shell.
type node struct {
	w        *World
	i        int
	id       cluster.NodeID
	priority uint32
	witness  bool

	// Survives a crash.
	disk  lease.VoteRecord
	older []lease.VoteRecord // what was on the disk before, newest last
	lost  string             // why the record on the disk is not to be trusted
	fresh bool
	gone  bool           // left for good
	knows [maxNodes]bool // who left, as the membership records say
	// logged is the highest term in the log, which is another file than the
	// vote record.
	logged cluster.Term
	rate   float64

	// Clock: local = offset + (true - born) * rate. It goes on while paused.
	offset, born time.Duration
	pausedFor    time.Duration
	pausedAt     time.Duration

	up, paused, ok bool
	suspended      bool // not only paused: the shell will notice
	leaving        bool // drained: does not stand until its next start
	gen            uint32
	core           lease.State
	acting         cluster.Term  // Acquired was carried out, Lost not yet
	since          time.Duration // start of the tenure in true time
	timerAt        time.Duration

	busy   bool // in fsync
	todo   []lease.Action
	inbox  []event
	inWork bool

	heard    [maxNodes]time.Duration // local time of the last heartbeat
	aliveAt  [maxNodes]time.Duration
	told     [maxNodes]lease.PeerChanged
	promised cluster.Term                    // highest ever on disk, over all lives
	granted  map[cluster.Term]cluster.NodeID // by this voter, over all lives

	// For the history only.
	askedTerm, releasedTerm cluster.Term
	askedAt                 time.Duration
}

func (n *node) local() time.Duration {
	return n.offset + time.Duration(float64(n.w.now-n.born)*n.rate)
}

// trueTime is when the local clock will show t.
func (n *node) trueTime(t time.Duration) time.Duration {
	return max(n.w.now, n.w.now+time.Duration(float64(t-n.local())/n.rate)+1)
}

// start boots the host with what is on its disk.
func (n *node) start() {
	if n.up || n.gone {
		return
	}
	w := n.w
	n.offset, n.born, n.pausedFor = w.between(0, time.Hour), w.now, 0
	core, err := lease.New(lease.Options{
		Self: n.id, Priority: n.priority, Witness: n.witness, Timing: w.timing,
		ModeSetting: w.setting, Vote: n.disk, Lost: n.lost, Floor: n.logged, Fresh: n.fresh,
	}, n.local())
	if err != nil {
		panic("sim: " + err.Error())
	}
	n.gen++
	n.up, n.paused, n.suspended, n.busy, n.fresh, n.ok, n.leaving = true, false, false, false, false, true, false
	n.core, n.acting, n.timerAt = core, 0, 0
	n.todo, n.inbox = nil, nil
	n.heard, n.aliveAt, n.told = [maxNodes]time.Duration{}, [maxNodes]time.Duration{}, [maxNodes]lease.PeerChanged{}
	w.tracef("%s starts promised=%d config=%d/%d", n.id, n.disk.PromisedTerm, n.disk.Config.Term, n.disk.Config.Epoch)
	w.push(event{at: w.now + w.between(0, 50*time.Millisecond), kind: evBeat, node: int8(n.i), gen: n.gen})
	n.step(lease.Tick{Jitter: w.rng.Float64()})
	n.tellGone()
}

func (n *node) store(a lease.Action) {
	old := n.disk.Config
	if n.older = append(n.older, n.disk); len(n.older) > maxOlder {
		n.older = n.older[1:]
	}
	n.disk = a.(lease.Persist).Vote
	w := n.w
	if c := n.disk.Config; c.Mode != old.Mode || len(c.Voters) != len(old.Voters) {
		w.reconfigured(n)
	}
	if n.disk.PromisedTerm < n.promised {
		w.violate("I3 %s persists promise %d after %d", n.id, n.disk.PromisedTerm, n.promised)
	}
	n.promised = n.disk.PromisedTerm
	n.lost = "" // what is written now is whole, and says itself what was lost
	if to := n.disk.PromisedTo; to != "" {
		w.grants(n, n.disk.PromisedTerm, to)
	}
}

// arrive handles an event of this life, now or when the host can.
func (n *node) arrive(e *event) {
	if n.paused {
		if len(n.inbox) < 2000 {
			n.inbox = append(n.inbox, *e)
		}
		return
	}
	if n.busy && e.kind != evSynced {
		n.inbox = append(n.inbox, *e)
		return
	}
	n.handle(e)
	n.work()
}

// work goes through what waited.
func (n *node) work() {
	if n.inWork {
		return
	}
	n.inWork = true
	gen := n.gen
	for n.gen == gen && n.up && !n.paused && len(n.inbox) > 0 {
		at := -1
		for i := range n.inbox {
			if !n.busy || n.inbox[i].kind == evSynced {
				at = i
				break
			}
		}
		if at < 0 {
			break
		}
		e := n.inbox[at]
		n.inbox = append(n.inbox[:at], n.inbox[at+1:]...)
		n.handle(&e)
	}
	n.inWork = false
}

func (n *node) handle(e *event) {
	w := n.w
	switch e.kind {
	case evTick:
		n.timerAt = 0
		if d := lease.Deadline(n.core); d > n.local() {
			n.arm(d)
			return
		}
		n.step(lease.Tick{Jitter: w.rng.Float64()})
	case evMessage:
		n.step(lease.Receive{From: w.nodes[e.from].id, Msg: *e.msg})
	case evHeartbeat:
		n.hear(e)
	case evBeat:
		n.beat()
	case evSynced:
		n.store(n.todo[0])
		n.busy = false
		n.carry(n.todo[1:])
	case evReady:
		n.act(e.term)
		n.step(lease.TermReady{Term: e.term, Epoch: e.epoch})
	case evQuiesced:
		n.step(lease.Quiesced{Term: e.term})
	case evSuspended:
		n.step(lease.Suspended{})
	}
}

// beat sends heartbeats and looks who has gone silent.
func (n *node) beat() {
	w := n.w
	w.push(event{at: w.now + time.Duration(float64(w.timing.Heartbeat)/n.rate), kind: evBeat, node: int8(n.i), gen: n.gen})
	for j, o := range w.nodes {
		if j == n.i || !o.up {
			continue
		}
		if d, drop := w.lat(n.i, j); !drop {
			w.push(event{at: w.now + d, kind: evHeartbeat, node: int8(j), from: int8(n.i), gen: o.gen, flag: n.eligible(), pub: w.publishes(n), lost: n.abstains(), term: n.holds()})
		}
	}
	limit := w.timing.Suspect + w.timing.Grace
	for j := range w.nodes {
		if t := n.told[j]; t.Alive && n.local()-n.heard[j] > limit {
			t.Alive, t.CaughtUp = false, false
			n.tell(j, t)
		}
	}
	n.act(n.acting)
	w.judgeDuty()
}

func (n *node) hear(e *event) {
	j := int(e.from)
	if n.knows[j] {
		return // a host that left is not listened to
	}
	o := n.w.nodes[j]
	now := n.local()
	n.heard[j] = now
	t := lease.PeerChanged{Node: o.id, Priority: o.priority, Eligible: e.flag, Alive: true, Publishing: e.pub, Abstains: e.lost, Holds: e.term}
	if !n.told[j].Alive {
		n.aliveAt[j] = now
	}
	t.CaughtUp = now-n.aliveAt[j] > n.w.timing.Heartbeat/2
	n.tell(j, t)
}

func (n *node) tell(j int, t lease.PeerChanged) {
	if n.told[j] != t {
		n.told[j] = t
		n.step(t)
	}
}

// act is an effect under the term, which a fence judges: a term below one
// that was used must not pass (three and more voters).
func (n *node) act(term cluster.Term) {
	if term == 0 || term != n.acting || !lease.MayAct(n.core, term, n.local()) {
		return
	}
	n.w.effect(n, term)
	if term < n.w.fence && n.w.strict(n) {
		n.w.violate("I3 %s acts with term %d after term %d", n.id, term, n.w.fence)
	}
	n.w.fence = max(n.w.fence, term)
}

func (n *node) step(ev lease.Event) {
	if n.w.Trace != nil {
		n.w.tracef("%s %s", n.id, ev)
	}
	n.w.res.Steps++
	var acts []lease.Action
	n.core, acts = lease.Step(n.core, ev, n.local())
	n.w.dutyStepped(n, acts)
	n.arm(lease.Deadline(n.core))
	n.carry(acts)
}

func (n *node) arm(deadline time.Duration) {
	at := n.trueTime(deadline)
	if n.timerAt != 0 && n.timerAt <= at && n.timerAt >= n.w.now {
		return
	}
	n.timerAt = at
	n.w.push(event{at: at + n.w.between(0, time.Millisecond), kind: evTick, node: int8(n.i), gen: n.gen})
}

// carry does the actions in order; a Persist takes time, and what comes after
// it waits.
func (n *node) carry(acts []lease.Action) {
	w := n.w
	gen := n.gen
	for i, a := range acts {
		if n.gen != gen {
			return // crashed meanwhile
		}
		if w.Trace != nil {
			w.tracef("%s   %s", n.id, a)
		}
		if w.hist != nil {
			w.hist.note(n, a)
		}
		switch a := a.(type) {
		case lease.Persist:
			d := w.between(100*time.Microsecond, 3*time.Millisecond)
			if !w.calm && w.rng.IntN(50) == 0 {
				d = w.between(0, 200*time.Millisecond)
			}
			n.busy, n.todo = true, acts[i:]
			w.push(event{at: w.now + d, kind: evSynced, node: int8(n.i), gen: n.gen})
			return
		case lease.Send:
			n.send(a)
		case lease.Acquired:
			n.acting = a.Term
			n.logged = max(n.logged, a.Term)
			n.since = w.now - time.Duration(float64(n.local()-n.core.Status().TenureStart)/n.rate)
			w.acquired(n, a)
			w.push(event{at: w.now + w.between(5*time.Millisecond, 200*time.Millisecond) + 2*w.zones.rtt, kind: evReady, node: int8(n.i), gen: n.gen, term: a.Term, epoch: a.Config.Epoch})
		case lease.ConfigStable:
			w.settled(a.Config)
			w.push(event{at: w.now + w.between(5*time.Millisecond, 200*time.Millisecond) + 2*w.zones.rtt, kind: evReady, node: int8(n.i), gen: n.gen, term: a.Term, epoch: a.Config.Epoch})
		case lease.Extended:
			w.judge(n)
		case lease.Quiesce:
			if w.rng.IntN(10) != 0 || w.calm {
				w.push(event{at: w.now + w.between(0, 20*time.Millisecond), kind: evQuiesced, node: int8(n.i), gen: n.gen, term: a.Term})
			}
		case lease.Lost:
			w.lostLease(n, a)
			n.acting = 0
		}
	}
}

func (n *node) send(a lease.Send) {
	w := n.w
	for j, o := range w.nodes {
		if o.id != a.To {
			continue
		}
		times := 1
		if w.rng.Float64() < w.dup {
			times = 2
		}
		for range times {
			if d, drop := w.lat(n.i, j); !drop && o.up {
				msg := a.Msg
				w.push(event{at: w.now + d, kind: evMessage, node: int8(j), from: int8(n.i), gen: o.gen, msg: &msg})
			}
		}
		if a.Msg.Phase == lease.VoteReply && a.Msg.Granted {
			w.voted(n)
		}
	}
}
