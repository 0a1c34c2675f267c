package lease

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/skein-project/skein/cluster"
)

// The hosts of the exhaustive search. A host is its lease core and what is on
// its disk; both are brought to a normal form, in which every time counts from
// now and every round from the newest, and get a number. What a host does with
// an event is then computed once and looked up ever after.

// searchTerms bounds the terms that are asked for.
const searchTerms = 3

// searchRound is the number that the newest round of every host gets.
const searchRound = 2 * ringSize

// searchTiming counts in units of 1 ns. All sums and differences that the
// protocol makes of these are whole, and all its comparisons are between such,
// so nothing that can happen at any time cannot happen at a whole one. Waits
// that only choose who goes first are 0: then any order is possible. Clocks of
// different rates need a margin for a vote as well, and so longer guards.
func searchTiming(drift bool) Timing {
	t := Timing{
		Lease: 3, VoteGuard: 2, Round: 1, Renew: 1, Retry: 1, Quiesce: 1, Abstain: 1,
		PreemptDelay: time.Hour, PreemptCap: time.Hour, MinTenure: time.Hour, LossWindow: time.Hour, Heartbeat: 1,
	}
	if drift {
		t.Lease, t.VoteGuard, t.MarginPercent = 5, 3, 40 // 3 and 2 count
	}
	return t
}

var searchNodes = []cluster.NodeID{"a", "b", "w"} // w is a witness: two candidates

const searchCandidates = 2

// op is one thing that can happen to a host: a kind, or opMessage plus the
// number of the message that arrives.
type op = uint32

const (
	opTime     op = iota // one unit passes
	opPreVotes           // every voter would vote for this host
	opCrash              // all but the disk is lost, and it starts again
	opStepDown           // it is asked to hand over
	opQuiesced
	opMessage
)

var opNames = [...]string{"time", "gets pre-votes", "crashes and starts again", "is asked to step down", "has quiesced"}

// host is one interned state of one host.
type host struct {
	s     State
	disk  VoteRecord
	index int
	// held is the term that it believes to hold, standing the one that it
	// asks to be asked for.
	held, standing cluster.Term
}

// parcel is one interned message, its round counted from the newest of the
// host that asked.
type parcel struct {
	from, to int
	msg      Message
}

// owner is the host whose round a message carries.
func (p *parcel) owner() int {
	switch p.msg.Phase {
	case VoteReply, RenewReply:
		return p.to
	}
	return p.from
}

// outcomeOf is what a host makes of an op.
type outcomeOf struct {
	next     uint32
	rounds   uint64 // by how many its newest round rose
	sent     []uint32
	acquired cluster.Term
	fault    string
	beyond   bool // asks for a term above the bound
}

// hosts holds the numbers of hosts and messages, and the outcomes known.
type hosts struct {
	timing  Timing
	handed  bool // releases happen
	list    []host
	byKey   map[string]uint32
	parcels []parcel
	byText  map[string]uint32
	known   [][]*outcomeOf // by host and op
	aged    map[agedKey]uint32
	steps   int
}

type agedKey struct {
	parcel, owner uint32
	rounds        uint64
}

func newHosts(timing Timing, handed bool) *hosts {
	return &hosts{timing: timing, handed: handed, byKey: map[string]uint32{}, byText: map[string]uint32{}, aged: map[agedKey]uint32{}}
}

// first returns the hosts of a new cluster.
func (h *hosts) first() (out [3]uint32) {
	for i := range searchNodes {
		out[i], _ = h.intern(host{s: h.start(i, VoteRecord{Config: searchConfig()}, true), disk: VoteRecord{Config: searchConfig()}, index: i}, 0)
	}
	return out
}

func searchConfig() cluster.VoterConfig {
	return cluster.VoterConfig{Epoch: 1, Voters: searchNodes, Mode: cluster.ModeQuorum}
}

func (h *hosts) start(i int, disk VoteRecord, fresh bool) State {
	s, err := New(Options{
		Self: searchNodes[i], Priority: uint32(10 + i), Witness: i >= searchCandidates, Timing: h.timing,
		ModeSetting: cluster.ModeAuto, Vote: disk, Fresh: fresh,
	}, 0)
	if err != nil {
		panic("lease: " + err.Error())
	}
	for j, n := range searchNodes {
		if j != i {
			s, _ = Step(s, PeerChanged{Node: n, Priority: uint32(10 + j), Eligible: j < searchCandidates, Alive: true, CaughtUp: true}, 0)
		}
	}
	return s
}

// intern brings a host to its normal form after passed units, and numbers it.
func (h *hosts) intern(n host, passed time.Duration) (id uint32, rounds uint64) {
	n.held, n.standing = 0, 0
	rounds = h.normalise(&n.s, passed)
	number(&n.disk.Config)
	term, ok := n.s.Held(0)
	if ok {
		n.held = term
	}
	if n.s.phase == preVoting {
		n.standing = n.s.cand.term
	}
	key := fmt.Sprintf("%d %+v %+v", n.index, n.s, n.disk)
	id, ok = h.byKey[key]
	if !ok {
		id = uint32(len(h.list))
		h.byKey[key] = id
		h.list = append(h.list, n)
	}
	return id, rounds
}

// number gives a record the epoch that its term stands for. A holder issues
// one record here, when its term begins, and it never comes to another, since
// no TermReady is sent; so the order of records is that of their terms, and
// their epochs only say how many were issued before.
func number(c *cluster.VoterConfig) { c.Epoch = uint64(c.Term) + 1 }

// floors says how far back a time still matters; any other one that has
// passed is as good as now.
var floors = map[string]time.Duration{".cand.sent": -3, ".hold.sent.at": -6, ".releaseAt": -1}

// normalise lets passed units go by, makes all times count from now and all
// rounds from the newest, and clears what no decision reads.
func (h *hosts) normalise(s *State, passed time.Duration) (rounds uint64) {
	s.peers = slices.Clone(s.peers)
	rebase(reflect.ValueOf(s).Elem(), "", passed)
	if s.phase != preVoting && s.phase != voting {
		s.cand = candidacy{}
	}
	for i := range s.peers {
		s.peers[i].since = 0 // nobody is preempted within an hour
		s.peers[i].lastLoss, s.peers[i].losses = 0, 0
		s.peers[i].up, s.peers[i].down, s.peers[i].lostAt = 0, 0, 0
	}
	s.lastLoss, s.hold.since = Loss{}, 0
	if s.released.Term == 0 {
		s.releaseAt = 0
	}
	if !h.handed {
		s.last = Observed{} // says who released
	}
	number(&s.vote.Config)
	number(&s.hold.base)
	for i := range s.hold.nacks {
		if a := &s.hold.acks[i]; a.epoch != 0 {
			a.epoch = s.vote.Config.Epoch // there is one record in a term
		}
	}
	s.duty, s.unseen = Duty{}, 0   // the lease does not depend on it
	rounds = s.round - searchRound // may be a wrapped difference
	s.round = searchRound
	if s.cand.round != 0 {
		s.cand.round -= rounds
	}
	var sent [ringSize]sending
	for _, e := range s.hold.sent {
		if e.round != 0 && s.holds() && e.at > -h.timing.safe(h.timing.Lease) {
			e.round -= rounds
			sent[e.round%ringSize] = e
		}
	}
	s.hold.sent = sent
	if s.hold.outbidRound != 0 {
		s.hold.outbidRound -= rounds
	}
	return rounds
}

// rebase subtracts passed from every duration in v but those of the timing.
func rebase(v reflect.Value, path string, passed time.Duration) {
	switch v.Kind() {
	case reflect.Int64:
		if v.Type() == reflect.TypeFor[time.Duration]() {
			d := reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
			d.SetInt(max(d.Int()-int64(passed), int64(floors[path])))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Type != reflect.TypeFor[Timing]() {
				rebase(v.Field(i), path+"."+f.Name, passed)
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			rebase(v.Index(i), path, passed)
		}
	case reflect.Slice:
		// Durations in slices are those of the peers, cleared by normalise.
	case reflect.Pointer, reflect.Map, reflect.Interface, reflect.Func:
		panic("lease: state holds a " + v.Kind().String() + " at " + path + ", which the search cannot number")
	}
}

// do returns what host n makes of o.
func (h *hosts) do(n uint32, o op) *outcomeOf {
	for int(n) >= len(h.known) {
		h.known = append(h.known, nil)
	}
	for int(o) >= len(h.known[n]) {
		h.known[n] = append(h.known[n], make([]*outcomeOf, o+1-op(len(h.known[n])))...)
	}
	out := h.known[n][o]
	if out == nil {
		out = h.compute(n, o)
		h.known[n][o] = out
	}
	return out
}

func (h *hosts) compute(n uint32, o op) *outcomeOf {
	out := &outcomeOf{}
	cur := h.list[n]
	passed := time.Duration(0)
	var evs []Event
	switch o {
	case opTime:
		passed = 1
		evs = append(evs, Tick{})
	case opPreVotes:
		for i, v := range searchNodes {
			if i != cur.index {
				evs = append(evs, Receive{From: v, Msg: Message{
					Phase: PreVoteReply, Term: cur.s.cand.term, Round: cur.s.cand.round, Granted: true, Config: cur.s.vote.Config,
				}})
			}
		}
	case opCrash:
		cur.s = h.start(cur.index, cur.disk, false)
	case opStepDown:
		evs = append(evs, StepDown{Reason: "asked"})
	case opQuiesced:
		evs = append(evs, Quiesced{Term: cur.s.hold.term})
	default:
		p := h.parcels[o-opMessage]
		evs = append(evs, Receive{From: searchNodes[p.from], Msg: p.msg})
	}
	var sends []Send
	for _, ev := range evs {
		var acts []Action
		h.steps++
		cur.s, acts = Step(cur.s, ev, passed)
		for _, a := range acts {
			switch a := a.(type) {
			case Persist:
				if a.Vote.PromisedTerm < cur.disk.PromisedTerm || cur.disk.Config.Newer(a.Vote.Config) {
					out.fault = fmt.Sprintf("I3 %s: %s after %+v", searchNodes[cur.index], a, cur.disk)
				}
				cur.disk = a.Vote
			case Send:
				sends = append(sends, a)
			case Acquired:
				out.acquired = a.Term
			}
		}
	}
	out.beyond = cur.s.phase == voting && cur.s.cand.term > searchTerms
	var rounds uint64
	out.next, rounds = h.intern(cur, passed)
	out.rounds = rounds
	if o == opCrash {
		out.rounds = searchRound // whatever it asked before is stale
	}
	for _, a := range sends {
		if a.Msg.Phase == PreVote || a.Msg.Phase == PreVoteReply {
			continue // opPreVotes stands for them
		}
		p := parcel{from: cur.index, to: slices.Index(searchNodes, a.To), msg: a.Msg}
		p.msg.Reason = ""
		number(&p.msg.Config)
		if p.owner() == cur.index && p.msg.Round != 0 {
			p.msg.Round -= rounds
		}
		out.sent = append(out.sent, h.number(p))
	}
	return out
}

func (h *hosts) number(p parcel) uint32 {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %d %+v", p.from, p.to, p.msg)
	if r := p.msg.Released; r != nil {
		fmt.Fprintf(&b, " %+v", *r)
		// The pointer itself differs every time.
		m := p.msg
		m.Released = nil
		b.Reset()
		fmt.Fprintf(&b, "%d %d %+v %+v", p.from, p.to, m, *r)
	}
	id, ok := h.byText[b.String()]
	if !ok {
		id = uint32(len(h.parcels))
		h.byText[b.String()] = id
		h.parcels = append(h.parcels, p)
	}
	return id
}

const dropped = ^uint32(0)

// void reports whether a message can do nothing to its receiver n any more.
func (h *hosts) void(id, n uint32) bool { return h.inert(id, n) || h.counted(id, n) }

// inert reports whether a message that nobody waits for can do nothing to the
// receiver n any more: its term is below one that was promised or released.
func (h *hosts) inert(id, n uint32) bool {
	m, v := &h.parcels[id].msg, &h.list[n].s.vote
	if m.Phase == ReleaseTerm {
		return m.Released.Term <= h.list[n].s.released.Term
	}
	if m.Round != 0 {
		return false
	}
	switch m.Phase {
	case Vote:
		return m.Term < v.PromisedTerm || (m.Term == v.PromisedTerm && v.PromisedTo != searchNodes[h.parcels[id].from])
	case Renew:
		return m.Term < v.PromisedTerm
	}
	return false
}

// counted reports whether an answer was counted already, or says what host n
// knows: it changes nothing, and will not as long as it is waited for, since
// what a candidate and a holder take from such answers only grows.
func (h *hosts) counted(id, n uint32) bool {
	switch m := &h.parcels[id].msg; {
	case m.Phase == VoteReply, m.Phase == RenewReply && m.Granted:
		out := h.do(n, opMessage+id)
		return out.next == n && len(out.sent) == 0
	}
	return false
}

// age returns what a message is after its owner became n and its rounds rose:
// one that nobody waits for any more loses its round, if it is a request, or
// is dropped, if it is an answer.
func (h *hosts) age(id, n uint32, rounds uint64) uint32 {
	key := agedKey{id, n, rounds}
	out, ok := h.aged[key]
	if ok {
		return out
	}
	p, o := h.parcels[id], &h.list[n]
	if p.msg.Round != 0 {
		p.msg.Round -= rounds
	}
	live, answer := false, false
	switch r := p.msg.Round; p.msg.Phase {
	case VoteReply, RenewReply:
		answer = true
		live = r != 0 && (r == o.s.cand.round || o.s.hold.sent[r%ringSize].round == r)
	case Vote:
		live = o.s.phase == voting && o.s.cand.round == r
	case Renew:
		live = o.s.holds() && o.s.hold.term == p.msg.Term && r != 0 && o.s.hold.sent[r%ringSize].round == r
	}
	switch {
	case !live && answer:
		out = dropped
	case !live:
		p.msg.Round = 0
		out = h.number(p)
	default:
		out = h.number(p)
	}
	h.aged[key] = out
	return out
}
