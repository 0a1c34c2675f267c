package lease

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
)

// The exhaustive search visits every state that three voters, two of them
// candidates, can be in within three terms and one crash, or one handover, when
// messages arrive in any order, late, twice or never, and time goes on between
// any two of these. In each state: a term has had one holder (I1), two hosts
// never both believe to hold (I2), no host holds a term below one that was
// held and no promise falls (I3), and no voter grants a term twice (I5).
//
// What is exact. A host is the product's own core behind Step, with a disk that
// a crash leaves. Hosts that no later step can tell apart are one: times count
// from now and rounds from the newest, what has passed has passed, and a record
// is known by its term, since here a holder issues one in its term. A message
// leaves the network, which else keeps it for ever, once it can do nothing any
// more: an answer to a round that is over or that was counted, a request below
// the receiver's promise.
//
// What is more than in truth. Pre-votes, which bind nobody, are not sent: a host
// that asks for them may get all of them, whatever the voters think. Waits that
// only choose who goes first are 0, so that any order is possible.
//
// What is less than in truth. Time goes in whole units (see searchTiming), for
// all hosts at once, but the clock of a slow host may stand still in one unit
// out of three, as much as the margin allows for. The core gets a Tick in every
// unit. Of the renewals of one term on their way to a host the newest is kept,
// which says all that the older do and is good for longer; of other messages of
// one kind and way the newest four, and it is told how often one was forgotten
// so: once in two thousand steps.
// States are told apart by hashes of 64 bits: with 10 million the chance that
// any two are confused is one in 350 000.
//
// The preference for better candidates, changes of voters, and pauses are not
// searched; the simulation has them.

// world is a state of the whole cluster.
type world struct {
	hosts    [3]uint32
	bag      [bagSize]uint16 // message numbers + 1, sorted
	acquired [searchTerms + 1]uint8
	crashes  uint8
	handed   uint8
	lag      uint8 // units since the slow clock stood still
}

const (
	bagSize = 40
	// kept is how many messages of one kind and way stay in the network.
	kept = 4
)

// search is one exhaustive search.
type search struct {
	slow            int // the host whose clock may stand still, -1: none
	crashes, handed uint8
	limit           int // states, 0: all

	h       *hosts
	seen    hashSet
	queue   []world
	from    []origin // one per state, in the order of discovery
	visited int
	edges   int
	fault   string
	faultAt origin
	crowded int
	left    int // states found and not visited
	// forgotten counts the messages that went since there were newer ones.
	forgotten int
}

// origin is how a state was first reached.
type origin struct {
	parent uint32
	what   uint32 // op
	host   uint8
}

func (x *search) run() {
	x.h = newHosts(searchTiming(x.slow >= 0), x.handed > 0)
	w := world{hosts: x.h.first()}
	x.add(&w, origin{})
	for head := 0; head < len(x.queue); {
		w := x.queue[head]
		x.expand(&w, uint32(x.visited))
		x.visited++
		head++
		x.left = len(x.queue) - head
		if x.fault != "" || (x.limit > 0 && x.visited >= x.limit) {
			return
		}
		if x.visited%1_000_000 == 0 && testing.Verbose() {
			fmt.Fprintf(os.Stderr, "states=%d to visit=%d\n", x.visited, len(x.queue)-head)
		}
		if head >= 1<<16 && head > len(x.queue)/2 {
			x.queue = append(x.queue[:0], x.queue[head:]...)
			head = 0
		}
	}
}

func (x *search) add(w *world, o origin) {
	if x.seen.add(w.hash()) {
		x.queue = append(x.queue, *w)
		x.from = append(x.from, o)
	}
}

// expand adds every state that can follow w.
func (x *search) expand(w *world, id uint32) {
	for i, n := range w.hosts {
		h := &x.h.list[n]
		switch {
		case h.standing != 0 && h.standing <= searchTerms:
			x.step(w, id, i, opPreVotes)
		case h.s.phase == quiescing:
			x.step(w, id, i, opQuiesced)
		case h.s.phase == holding && w.handed < x.handed:
			x.step(w, id, i, opStepDown)
		}
		if w.crashes < x.crashes {
			x.step(w, id, i, opCrash)
		}
	}
	for _, m := range w.bag {
		if m == 0 {
			break
		}
		x.step(w, id, x.h.parcels[m-1].to, opMessage+op(m-1))
	}
	x.pass(w, id, -1)
	if x.slow >= 0 && w.lag >= 2 {
		x.pass(w, id, x.slow)
	}
}

// step lets o happen to one host.
func (x *search) step(w *world, id uint32, i int, o op) {
	next := *w
	switch o {
	case opCrash:
		next.crashes++
	case opStepDown:
		next.handed++
	}
	if x.apply(&next, i, o) {
		x.edges++
		x.judge(&next, origin{parent: id, what: o, host: uint8(i)})
	}
}

// pass lets one unit of time pass for all hosts but still.
func (x *search) pass(w *world, id uint32, still int) {
	next := *w
	switch {
	case still >= 0:
		next.lag = 0
	case x.slow >= 0:
		next.lag = min(2, w.lag+1)
	}
	for i := range next.hosts {
		if i != still && !x.apply(&next, i, opTime) {
			return
		}
	}
	x.edges++
	x.judge(&next, origin{parent: id, what: opTime, host: uint8(still + 1)})
}

// apply changes w by what host i makes of o; false if that is out of bounds.
func (x *search) apply(w *world, i int, o op) bool {
	out := x.h.do(w.hosts[i], o)
	if out.beyond {
		return false
	}
	if out.fault != "" && x.fault == "" {
		x.fault = out.fault
	}
	changed := out.next != w.hosts[i]
	w.hosts[i] = out.next
	if t := out.acquired; t != 0 {
		if t > searchTerms {
			return false
		}
		if had := w.acquired[t]; had != 0 && x.fault == "" {
			x.fault = fmt.Sprintf("I1 %s acquires term %d, which %s had", searchNodes[i], t, searchNodes[had-1])
		}
		w.acquired[t] = uint8(i + 1)
	}
	if changed || out.rounds != 0 {
		x.age(w, i, out.rounds)
	}
	for _, m := range out.sent {
		x.post(w, m)
	}
	return true
}

// age brings the messages that carry rounds of host i up to date.
func (x *search) age(w *world, i int, rounds uint64) {
	old := w.bag
	w.bag = [bagSize]uint16{}
	n := 0
	for _, m := range old {
		if m == 0 {
			break
		}
		id := uint32(m - 1)
		if x.h.parcels[id].owner() == i {
			id = x.h.age(id, w.hosts[i], rounds)
		}
		if id == dropped || (x.h.parcels[id].to == i && x.h.void(id, w.hosts[i])) {
			continue
		}
		n = w.put(n, id)
	}
}

// put inserts a message into the n sorted ones of the bag.
func (w *world) put(n int, id uint32) int {
	m := uint16(id + 1)
	i := n
	for i > 0 && w.bag[i-1] >= m {
		if w.bag[i-1] == m {
			return n
		}
		i--
	}
	copy(w.bag[i+1:n+1], w.bag[i:n])
	w.bag[i] = m
	return n + 1
}

func (w *world) size() int {
	for i, m := range w.bag {
		if m == 0 {
			return i
		}
	}
	return bagSize
}

// post puts a message into the network. Of one kind and way only two stay.
func (x *search) post(w *world, id uint32) {
	p := &x.h.parcels[id]
	if x.h.void(id, w.hosts[p.to]) {
		return
	}
	n := w.size()
	oldest, same := -1, 0
	for i, m := range w.bag[:n] {
		if uint32(m-1) == id {
			return
		}
		q := &x.h.parcels[m-1]
		if q.from == p.from && q.to == p.to && q.msg.Phase == p.msg.Phase {
			if p.msg.Phase == Renew && q.msg.Term == p.msg.Term {
				same, oldest = kept, i // the newer says all that the older does
				break
			}
			if x.equivocates(p, q) && x.fault == "" {
				x.fault = fmt.Sprintf("I5 %s grants term %d twice", searchNodes[p.from], p.msg.Term)
			}
			same++
			if o := oldest; o < 0 || x.older(q, &x.h.parcels[w.bag[o]-1]) {
				oldest = i
			}
		}
	}
	if same >= kept {
		if p.msg.Phase != Renew {
			x.forgotten++
		}
		copy(w.bag[oldest:], w.bag[oldest+1:n])
		n--
		w.bag[n] = 0
	}
	if n >= bagSize-1 {
		x.crowded++
		return
	}
	w.put(n, id)
}

func (x *search) older(p, q *parcel) bool {
	if p.msg.Term != q.msg.Term {
		return p.msg.Term < q.msg.Term
	}
	return p.msg.Round < q.msg.Round
}

func (x *search) equivocates(p, q *parcel) bool {
	return p.msg.Phase == VoteReply && p.msg.Granted && q.msg.Granted && p.msg.Term == q.msg.Term && p.to != q.to
}

// judge checks a state and adds it.
func (x *search) judge(w *world, o origin) {
	var top cluster.Term
	for t, by := range w.acquired {
		if by != 0 {
			top = cluster.Term(t)
		}
	}
	holder := -1
	for i, n := range w.hosts {
		term := x.h.list[n].held
		switch {
		case term == 0 || x.fault != "":
		case holder >= 0:
			x.fault = fmt.Sprintf("I2 %s and %s both believe to hold", searchNodes[holder], searchNodes[i])
		case term < top:
			x.fault = fmt.Sprintf("I3 %s holds term %d after term %d was held", searchNodes[i], term, top)
		default:
			holder = i
		}
	}
	if x.fault != "" {
		x.faultAt = o
		return
	}
	x.add(w, o)
}

// trace tells how the fault came about, one line for each thing that happened.
func (x *search) trace() string {
	var path []origin
	for o := x.faultAt; ; o = x.from[o.parent] {
		path = append(path, o)
		if o.parent == 0 {
			break
		}
	}
	var b strings.Builder
	now := 0
	for _, o := range slices.Backward(path) {
		switch {
		case o.what == opTime:
			now++
			if o.host > 0 {
				fmt.Fprintf(&b, "%3d  the clock of %s stands still\n", now, searchNodes[o.host-1])
			}
		case o.what >= opMessage:
			p := x.h.parcels[o.what-opMessage]
			fmt.Fprintf(&b, "%3d  %s receives from %s: %s term=%d granted=%t promised=%d\n", now,
				searchNodes[p.to], searchNodes[p.from], p.msg.Phase, p.msg.Term, p.msg.Granted, p.msg.Promised)
		default:
			fmt.Fprintf(&b, "%3d  %s %s\n", now, searchNodes[o.host], opNames[o.what])
		}
	}
	fmt.Fprintf(&b, "%s\n", x.fault)
	return b.String()
}

// hash is FNV-1a over words, with a final mix.
func (w *world) hash() uint64 {
	h := uint64(0xcbf29ce484222325)
	mix := func(v uint64) { h = (h ^ v) * 0x9e3779b97f4a7c15; h ^= h >> 29 }
	mix(uint64(w.hosts[0]) | uint64(w.hosts[1])<<32)
	mix(uint64(w.hosts[2]) | uint64(w.crashes)<<32 | uint64(w.handed)<<40 | uint64(w.lag)<<48)
	mix(uint64(w.acquired[1]) | uint64(w.acquired[2])<<8 | uint64(w.acquired[3])<<16)
	for i := 0; i < bagSize && w.bag[i] != 0; i += 2 {
		mix(uint64(w.bag[i]) | uint64(w.bag[i+1])<<16)
	}
	return h ^ h>>32
}

// hashSet is a set of hashes, open addressing; 0 stands for an empty place.
type hashSet struct {
	slots []uint64
	n     int
}

func (s *hashSet) add(h uint64) bool {
	if h == 0 {
		h = 1
	}
	if s.n*2 >= len(s.slots) {
		old := s.slots
		s.slots = make([]uint64, max(1<<16, 2*len(old)))
		s.n = 0
		for _, v := range old {
			if v != 0 {
				s.add(v)
			}
		}
	}
	mask := uint64(len(s.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		switch s.slots[i] {
		case h:
			return false
		case 0:
			s.slots[i] = h
			s.n++
			return true
		}
	}
}

// TestExhaustive visits every state up to a bound, and all of them with
// SKEIN_PROVE=1; of those with a handover, which are too many, the nearest 12
// million.
func TestExhaustive(t *testing.T) {
	limit := 50_000
	if testing.Short() {
		limit = 20_000
	}
	prove := os.Getenv("SKEIN_PROVE") == "1"
	for name, x := range map[string]search{
		"crash":      {slow: -1, crashes: 1},
		"slow_clock": {slow: 0},
		"handover":   {slow: -1, handed: 1, limit: 12_000_000},
	} {
		t.Run(name, func(t *testing.T) {
			if !prove {
				x.limit = limit
			}
			began := time.Now() //nolint:forbidigo // how fast the search is
			x.run()
			took := time.Since(began) //nolint:forbidigo // how fast the search is
			if x.fault != "" {
				t.Errorf("after %d states:\n%s", x.visited, x.trace())
			}
			if x.crowded > 0 {
				t.Errorf("the network was too small %d times", x.crowded)
			}
			t.Logf("states=%d edges=%d forgotten=%d hosts=%d messages=%d steps=%d all=%t in %s",
				x.visited, x.edges, x.forgotten, len(x.h.list), len(x.h.parcels), x.h.steps, x.left == 0, took.Round(time.Millisecond))
		})
	}
}
