package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/lease"
)

// OpKind is what an operation of a History does.
type OpKind uint8

// Operations.
const (
	OpAcquire OpKind = iota // the lease, from the vote to the majority
	OpRenew                 // the lease, from the request to the majority
	OpRelease               // the lease
	OpWrite                 // the fenced register, under a term
	OpRead                  // the fenced register
)

var opNames = [...]string{"acquire", "renew", "release", "write", "read"}

// Op is one operation of one host with the true time of its call and of its
// return.
type Op struct {
	Host int
	Kind OpKind
	Term cluster.Term
	// Value is what was written or read; OK is false for a write that the
	// fence refused.
	Value        uint64
	OK           bool
	Call, Return time.Duration
}

func (o Op) String() string {
	return fmt.Sprintf("%s-%s n%d %s term=%d value=%d ok=%t", o.Call, o.Return, o.Host+1, opNames[o.Kind], o.Term, o.Value, o.OK)
}

// history records what the hosts do to the lease, and to a register that
// refuses terms below the highest that it has seen. The register stands for
// every fenced effect: writes reach it late, some after a stall between the
// check of the lease and the effect.
type history struct {
	ops     []Op
	rng     *rand.Rand // of its own, so that recording changes nothing
	writes  uint64
	reg     register
	pending []pending
	// unfenced makes the register take every term, for a test of the check.
	unfenced bool
}

type register struct {
	term  cluster.Term
	value uint64
}

type pending struct {
	op Op
	at time.Duration
}

// Record makes the world record a history. It is to be called before Run.
func (w *World) Record() {
	w.hist = &history{rng: rand.New(rand.NewPCG(w.Seed, 0x68697374))}
}

// History returns what was recorded.
func (w *World) History() []Op {
	if w.hist == nil {
		return nil
	}
	return w.hist.ops
}

// effect sends a write to the register, now and then. The host has just
// checked its lease.
func (w *World) effect(n *node, term cluster.Term) {
	h := w.hist
	if h == nil || h.rng.IntN(3) != 0 {
		return
	}
	delay := time.Duration(h.rng.Int64N(int64(5 * time.Millisecond)))
	if h.rng.IntN(4) == 0 {
		delay = time.Duration(h.rng.Int64N(int64(3 * w.timing.Lease)))
	}
	h.writes++
	op := Op{Host: n.i, Kind: OpWrite, Term: term, Value: h.writes, Call: w.now}
	if h.rng.IntN(6) == 0 {
		op.Kind, op.Term, op.Value = OpRead, 0, 0
	}
	h.pending = append(h.pending, pending{op: op, at: w.now + delay})
	w.push(event{at: w.now + delay, kind: evWrite, node: -1})
}

// arriveWrite lets the register answer what has arrived.
func (h *history) arriveWrite(now time.Duration) {
	h.pending = slices.DeleteFunc(h.pending, func(p pending) bool {
		if p.at > now {
			return false
		}
		op := p.op
		switch {
		case op.Kind == OpRead:
			op.Value, op.OK = h.reg.value, true
		case op.Term >= h.reg.term || h.unfenced:
			h.reg, op.OK = register{op.Term, op.Value}, true
		}
		op.Return = now + time.Duration(h.rng.Int64N(int64(5*time.Millisecond)))
		h.ops = append(h.ops, op)
		return true
	})
}

// note records what a does to the lease.
func (h *history) note(n *node, a lease.Action) {
	now := n.w.now
	switch a := a.(type) {
	case lease.Persist:
		if a.Vote.PromisedTo == n.id && a.Vote.PromisedTerm > n.askedTerm {
			n.askedTerm, n.askedAt = a.Vote.PromisedTerm, now
		}
	case lease.Acquired:
		h.ops = append(h.ops, Op{Host: n.i, Kind: OpAcquire, Term: a.Term, OK: true, Call: n.askedAt, Return: now})
	case lease.Extended:
		if a.Term != n.acting {
			return
		}
		t := n.w.timing
		sent := a.Until - (t.Lease - t.Lease*time.Duration(t.MarginPercent)/100)
		call := now - max(0, time.Duration(float64(n.local()-sent)/n.rate)+time.Microsecond)
		h.ops = append(h.ops, Op{Host: n.i, Kind: OpRenew, Term: a.Term, OK: true, Call: max(0, call), Return: now})
	case lease.Send:
		if a.Msg.Phase == lease.ReleaseTerm && a.Msg.Term > n.releasedTerm {
			n.releasedTerm = a.Msg.Term
			h.ops = append(h.ops, Op{Host: n.i, Kind: OpRelease, Term: a.Msg.Term, OK: true, Call: now, Return: now})
		}
	}
}
