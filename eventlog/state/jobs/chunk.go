package jobs

import (
	"math"
	"slices"
	"strings"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/state/canon"
)

type chunkState uint8

const (
	chunkPending chunkState = iota
	chunkAssigned
	chunkAccepted
	chunkFailed
	chunkParked
	chunkStates int = iota
)

// chunk is the fold of the events of one chunk:
// pending < assigned < failed < parked < accepted. A release takes back what
// attempts up to its own meant, in whatever order both are learned.
type chunk struct {
	accept   *accept
	tries    []try // dropped with the accept
	released int   // attempts up to this one no longer give it up
	disputed bool  // results that differ were accepted, and none that settles it
}

type try struct {
	attempt   int
	worker    cluster.NodeID
	term      cluster.Term
	at        cluster.HLC
	assigned  bool
	failed    bool
	reclaimed bool
	final     bool // with failed: it gave the chunk up
	parked    bool // with final: for want of hosts, not for the work's own failure
}

func (t try) open() bool { return t.assigned && !t.failed && !t.reclaimed }

// accept is never changed. Its metrics are the chunk's leaves of the trees.
type accept struct {
	at      canon.Key
	attempt int
	worker  cluster.NodeID
	micros  int64
	settles bool
}

// before reports whether a counts and o does not: one that settles a dispute
// beats those that made it, and of equals the first wins.
func (a *accept) before(o *accept) bool {
	if a.settles != o.settles {
		return a.settles
	}
	return a.at.Less(o.at)
}

// givenUp reports whether the chunk is no longer tried, and whether that is for
// want of hosts.
func (c *chunk) givenUp() (is, parked bool) {
	for _, t := range c.tries {
		if t.final && t.attempt > c.released {
			is, parked = true, parked || t.parked
		}
	}
	return is, parked
}

// lastTry is on which worker a chunk was given up: the last of those that did.
func (c *chunk) lastTry() cluster.NodeID {
	var last try
	for _, t := range c.tries {
		if t.final && t.attempt > c.released && last.compare(t) < 0 {
			last = t
		}
	}
	return last.worker
}

func (c *chunk) state() chunkState {
	up, parked := c.givenUp()
	switch {
	case c.accept != nil:
		return chunkAccepted
	case parked:
		return chunkParked
	case up:
		return chunkFailed
	case slices.ContainsFunc(c.tries, try.open):
		return chunkAssigned
	}
	return chunkPending
}

func (c *chunk) try(attempt int, worker cluster.NodeID) *try {
	for i := range c.tries {
		if c.tries[i].attempt == attempt && c.tries[i].worker == worker {
			return &c.tries[i]
		}
	}
	c.tries = append(c.tries, try{attempt: attempt, worker: worker})
	return &c.tries[len(c.tries)-1]
}

// maxMicros bounds the run time of one attempt.
const maxMicros = 1e12

// micros turns a worker's own measure into integer microseconds, which add up
// to the same sum in any order.
func micros(seconds float64) int64 {
	if !(seconds > 0) {
		return 0
	}
	return int64(math.Round(min(seconds, maxMicros/1e6) * 1e6))
}

// The first byte of a chunk. None: pending, and never tried.
const (
	chunkHasAccept byte = 1 << iota
	chunkDisputed
	chunkIsReleased
	chunkHasTries
	chunkSettled
)

func (c *chunk) write(w *canon.Writer) {
	if a := c.accept; a != nil {
		b := chunkHasAccept
		if c.disputed {
			b |= chunkDisputed
		}
		if a.settles {
			b |= chunkSettled
		}
		w.Byte(b)
		w.Key(a.at)
		w.Count(a.attempt)
		w.Node(a.worker)
		w.Num(uint64(a.micros))
		return
	}
	var b byte
	if c.released > 0 {
		b |= chunkIsReleased
	}
	if len(c.tries) > 0 {
		b |= chunkHasTries
	}
	w.Byte(b)
	if c.released > 0 {
		w.Count(c.released)
	}
	if len(c.tries) == 0 {
		return
	}
	tries := slices.Clone(c.tries)
	slices.SortFunc(tries, try.compare)
	w.Count(len(tries))
	for _, t := range tries {
		w.Count(t.attempt)
		w.Node(t.worker)
		w.Byte(t.flags())
		if t.assigned {
			w.Num(uint64(t.term))
			w.Clock(t.at)
		}
	}
}

func (t try) compare(o try) int {
	if t.attempt != o.attempt {
		return t.attempt - o.attempt
	}
	return strings.Compare(string(t.worker), string(o.worker))
}

// The state of a try.
const (
	tryAssigned byte = 1 << iota
	tryFailed
	tryReclaimed
	tryFinal
	tryParked
)

func (t try) flags() (b byte) {
	if t.assigned {
		b |= tryAssigned
	}
	if t.failed {
		b |= tryFailed
	}
	if t.reclaimed {
		b |= tryReclaimed
	}
	if t.final {
		b |= tryFinal
	}
	if t.parked {
		b |= tryParked
	}
	return b
}

// read reads a chunk that is empty so far; room is for what was accepted.
func (c *chunk) read(r *canon.Reader, room *accept) {
	b := r.Byte()
	if b&chunkHasAccept != 0 {
		c.disputed = b&chunkDisputed != 0
		c.accept = room
		*room = accept{at: r.Key(), attempt: r.Int(), worker: r.Node(false), settles: b&chunkSettled != 0}
		us := r.Num()
		r.Check(us <= maxMicros, "run time")
		c.accept.micros = int64(us)
		r.Check(c.accept.attempt >= 1, "attempt")
		return
	}
	if b&chunkIsReleased != 0 {
		c.released = r.Int()
		r.Check(c.released >= 1, "release of a chunk")
	}
	if b&chunkHasTries == 0 {
		return
	}
	for n := r.Count(); n > 0 && r.OK(); n-- {
		t := try{attempt: r.Int(), worker: r.Node(false)}
		flags := r.Byte()
		t.assigned, t.failed, t.reclaimed = flags&tryAssigned != 0, flags&tryFailed != 0, flags&tryReclaimed != 0
		t.final, t.parked = flags&tryFinal != 0, flags&tryParked != 0
		r.Check((t.failed || !t.final) && (t.final || !t.parked), "end of an attempt")
		if t.assigned {
			t.term, t.at = r.Term(), r.Clock()
		}
		r.Check(t.attempt >= 1 && flags != 0, "attempt")
		if n := len(c.tries); n > 0 {
			r.Check(c.tries[n-1].compare(t) < 0, "order of attempts")
		}
		c.tries = append(c.tries, t)
	}
}
