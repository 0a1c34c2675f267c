package lease

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

const (
	// maxPeers bounds what PeerChanged can make a State remember.
	maxPeers = 4096
	// maxFollowers bounds the hosts beyond the voters that a holder tells
	// of its renewals, so that they know who holds.
	maxFollowers = 64
	// fewFollowers are told when there are more than that.
	fewFollowers = 4
	// ringSize bounds the renewals that a late answer can still match.
	ringSize = 8
	// maxAcks is a full configuration and one voter that is being changed.
	maxAcks = cluster.MaxVoters + 1
	// DefaultVoters is how many voters a holder chooses among more hosts than
	// cluster.MaxVoters.
	DefaultVoters = 5
)

// Options are what a State is made of.
type Options struct {
	Self     cluster.NodeID
	Priority uint32
	// Witness hosts vote and never hold.
	Witness bool
	Timing  Timing
	// ModeSetting is auto, quorum or available. It says how two voters
	// decide (auto means available); one voter is always single, three and
	// more always a quorum.
	ModeSetting cluster.Mode
	// Zone is the datacenter label of this host, by which voters are spread.
	Zone string
	// MaxVoters is how many voters the holder chooses when there are more hosts
	// than that; 0: all up to cluster.MaxVoters hosts, DefaultVoters of more.
	MaxVoters int
	// Vote is the record on disk, zero if there is none.
	Vote VoteRecord
	// Lost says why Vote cannot be trusted: it is missing although this host
	// voted before, damaged, or an old one. The voter then abstains until the
	// holder has taken it out of the configuration and in again.
	Lost string
	// Floor is the highest term that this host knows from elsewhere, such as
	// its log; it never asks for one at or below it.
	Floor cluster.Term
	// Fresh says that this host cannot have voted before: its state
	// directory was made by this very start. Any other start waits one
	// lease before it votes, because guards are not on disk.
	Fresh bool
}

// ErrOptions is wrapped by every error of New about Options.
var ErrOptions = errors.New("invalid lease options")

type phase uint8

const (
	idle phase = iota
	preVoting
	voting
	holding
	quiescing
)

var phaseNames = [...]string{"idle", "pre_vote", "vote", "hold", "quiesce"}

// State is the whole memory of one host's lease core. It is a value: Step
// returns a new one and the old one stays usable. The zero State is not
// usable, see New.
type State struct {
	self      cluster.NodeID
	priority  uint32
	witness   bool
	zone      string
	timing    Timing
	setting   cluster.Mode
	maxVoters int
	members   int // of the cluster, as the shell says

	now    time.Duration
	jitter float64
	vote   VoteRecord
	seen   cluster.Term // highest term heard of
	round  uint64
	peers  []peer // sorted by node, copied on write

	grantFrom time.Duration // votes for nobody before
	standFrom time.Duration // does not stand before
	vacant    time.Duration // since when no guard was live
	guard     guard
	holder    Observed // last told to the shell
	last      Observed // last holder heard of, kept when its guard ends
	released  Release  // newest release heard of
	releaseAt time.Duration

	notOK   string // why the self-check failed, empty if it is good
	leaving bool
	gone    bool // no member any more

	duty   Duty          // last told to the shell
	unseen time.Duration // since when no valid lease was visible

	phase    phase
	cand     candidacy
	hold     tenure
	lastLoss Loss
}

type peer struct {
	PeerChanged
	since    time.Duration // able to take over since then
	up       time.Duration // alive and caught up since then
	down     time.Duration // not alive since then
	lostAt   time.Duration // when it last said that it lost its vote record
	losses   uint8         // terms that it lost without a release
	lastLoss time.Duration
}

// able reports whether a handover may go to p.
func (p *peer) able() bool { return p.Alive && p.Eligible && p.CaughtUp && !p.Gone && !p.Abstains }

// ready reports whether p can become a voter, as far as its log goes.
func (p *peer) ready() bool { return p.Alive && p.CaughtUp && !p.Gone }

// guard is this voter's word not to help anyone but node until then.
type guard struct {
	node  cluster.NodeID
	term  cluster.Term
	until time.Duration
}

// candidacy is one round of pre-votes or votes. Bits number the voters of
// the configuration under which it runs.
type candidacy struct {
	term             cluster.Term
	round            uint64
	sent, deadline   time.Duration
	granted, refused uint8
	absent           uint8         // abstain
	again            time.Duration // when to ask again; 0: not any more
}

type ack struct {
	node  cluster.NodeID
	until time.Duration // the voter's guard, counted from sending
	epoch uint64        // newest record of this term that it persisted
}

type sending struct {
	round uint64
	at    time.Duration
}

type tenure struct {
	term         cluster.Term
	since, until time.Duration
	renewAt      time.Duration
	ready        bool
	look         bool   // a change of voters may be due
	readyEpoch   uint64 // newest configuration whose voters hold the log
	// base is the last stable configuration; while the newest record is
	// not stable, lease and record need majorities of both.
	base   cluster.VoterConfig
	stable bool
	acks   [maxAcks]ack
	nacks  int
	sent   [ringSize]sending
	// outbid counts rounds in which a voter was bound to a higher term.
	outbid      int
	outbidRound uint64

	successor cluster.NodeID
	reason    string
	quiesceBy time.Duration
}

// Loss says how a tenure of this host ended.
type Loss struct {
	Term   cluster.Term
	Reason string
	At     time.Duration
}

// New checks o and returns the state of a host that starts at now.
func New(o Options, now time.Duration) (State, error) {
	if _, err := cluster.ParseNodeID(string(o.Self)); err != nil {
		return State{}, fmt.Errorf("%w: self: %w", ErrOptions, err)
	}
	if err := o.Timing.Validate(); err != nil {
		return State{}, err
	}
	switch o.ModeSetting {
	case cluster.ModeAuto, cluster.ModeQuorum, cluster.ModeAvailable:
	default:
		return State{}, fmt.Errorf("%w: mode %q, want auto, quorum or available", ErrOptions, o.ModeSetting)
	}
	if o.MaxVoters < 0 || o.MaxVoters > cluster.MaxVoters {
		return State{}, fmt.Errorf("%w: %d voters, want 1-%d or 0", ErrOptions, o.MaxVoters, cluster.MaxVoters)
	}
	if c := o.Vote.Config; !c.IsZero() {
		if err := c.Validate(); err != nil {
			return State{}, fmt.Errorf("%w: vote record: %w", ErrOptions, err)
		}
	}
	s := State{
		self: o.Self, priority: o.Priority, witness: o.Witness, timing: o.Timing, setting: o.ModeSetting,
		zone: o.Zone, maxVoters: o.MaxVoters,
		now: now, vote: o.Vote, grantFrom: now, standFrom: now, vacant: now, unseen: now,
	}
	s.vote.Config.Voters = slices.Clone(o.Vote.Config.Voters)
	if o.Lost != "" {
		s.vote.Lost = o.Lost
		if o.Floor > s.vote.PromisedTerm {
			// What the log knows was acted on, maybe by this host alone.
			s.vote.PromisedTerm, s.vote.PromisedTo = o.Floor, ""
		}
	}
	s.seen = max(s.vote.PromisedTerm, s.vote.Config.Term, o.Floor)
	if !o.Fresh || s.vote.Lost != "" {
		s.grantFrom = now + s.timing.Lease
	}
	return s, nil
}

// lostLately reports whether p said that it lost its vote record, and since
// then neither voted nor can have told otherwise: a host that counts as alive
// later was heard after that, and its heartbeats say whether it abstains.
func (s *State) lostLately(p *peer) bool {
	t := &s.timing
	return p.lostAt != 0 && s.now < p.lostAt+max(3*t.Renew, t.Suspect+t.Grace+t.Heartbeat)
}

// Held returns the term that this host believes to hold at now; ok is false if
// it holds none. It is true up to the end of the lease, see MayAct.
func (s State) Held(now time.Duration) (term cluster.Term, ok bool) {
	return s.hold.term, s.holds() && now < s.hold.until
}

// MayAct reports whether this host may use term at now: it holds that term,
// and the lease does not end within ActMargin.
func MayAct(s State, term cluster.Term, now time.Duration) bool {
	return s.holds() && s.hold.term == term && now+s.timing.ActMargin < s.hold.until
}

func (s *State) holds() bool { return s.phase == holding || s.phase == quiescing }

// blocked says why this host may not stand.
func (s *State) blocked() string {
	c := &s.vote.Config
	switch {
	case c.IsZero():
		return "no voter configuration yet"
	case s.witness:
		return "witness"
	case s.leaving:
		return "leaving"
	case s.notOK != "":
		return s.notOK
	case s.vote.Lost != "":
		return "abstains: " + s.vote.Lost
	case (c.Mode != cluster.ModeQuorum || c.Split()) && !c.Has(s.self):
		return "not a voter"
	}
	return ""
}

// stands reports whether this host stands once it is time. One that does not
// vote may not be told of renewals either: as long as a living host says that
// it holds, there is nothing to stand for. If that is wrong, a voter stands.
func (s *State) stands() bool {
	return s.blocked() == "" && (s.vote.Config.Has(s.self) || s.named() || s.declared() == nil)
}

// find returns the index of n in peers, and whether it is there.
func (s *State) find(n cluster.NodeID) (int, bool) {
	lo, hi := 0, len(s.peers)
	for lo < hi {
		mid := (lo + hi) / 2
		if s.peers[mid].Node < n {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(s.peers) && s.peers[lo].Node == n
}

// lookup returns what is known of n, nil if nothing.
func (s *State) lookup(n cluster.NodeID) *peer {
	if i, ok := s.find(n); ok {
		return &s.peers[i]
	}
	return nil
}

func better(aPrio uint32, a cluster.NodeID, bPrio uint32, b cluster.NodeID) bool {
	if aPrio != bPrio {
		return aPrio < bPrio
	}
	return a < b
}

// standsBetter reports whether p is a candidate that beats (prio, node). One
// that has just released, or lost its vote record, does not stand.
func (s *State) standsBetter(p *peer, prio uint32, node cluster.NodeID) bool {
	if !p.Alive || !p.Eligible || p.Gone || p.Abstains || p.Node == node {
		return false
	}
	if s.justReleased(p.Node) {
		return false
	}
	return better(p.Priority, p.Node, prio, node)
}

func (s *State) justReleased(n cluster.NodeID) bool {
	return s.released.Term != 0 && s.released.Holder == n && s.now < s.releaseAt+s.timing.Abstain
}

// named reports whether the last holder asked this host to take over.
func (s *State) named() bool {
	return s.released.Term != 0 && s.released.Successor == s.self && s.released.Term >= s.last.Term &&
		s.now < s.releaseAt+s.timing.Abstain
}

// standAt is when an idle host that is not blocked stands.
func (s *State) standAt() time.Duration {
	at := max(s.standFrom, s.grantFrom)
	if s.guard.node != "" {
		at = max(at, s.guard.until)
	}
	if s.named() {
		return at
	}
	rank := 0
	for i := range s.peers {
		if s.standsBetter(&s.peers[i], s.priority, s.self) {
			rank++
		}
	}
	from := s.vacant
	if p := s.lookup(s.last.Holder); p != nil && p.Alive && !p.Abstains && s.released.Term < s.last.Term {
		// The last holder seems alive: it may only have missed renewals.
		from += s.timing.Defer
	}
	return max(at, from+time.Duration(rank)*s.timing.Skew)
}

// Deadline is when the next Tick must come at the latest, in local time. It
// is never further away than one lease.
func Deadline(s State) time.Duration {
	at := s.now + s.timing.Lease
	switch s.phase {
	case preVoting, voting:
		at = min(at, s.cand.deadline)
		if s.cand.again > 0 {
			at = min(at, s.cand.again)
		}
	case holding, quiescing:
		at = min(at, s.hold.until, s.hold.renewAt)
		if s.phase == quiescing {
			at = min(at, s.hold.quiesceBy)
		} else if _, when := s.preemptor(); when > s.now {
			at = min(at, when)
		}
	default:
		if s.stands() {
			at = min(at, s.standAt())
		}
	}
	if s.guard.node != "" {
		at = min(at, s.guard.until)
	}
	if d := s.standsIn(); s.holder.Holder == "" && d > s.now {
		at = min(at, d)
	}
	return max(at, s.now)
}
