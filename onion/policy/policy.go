package policy

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/lease"
	"github.com/skein-project/skein/publisher/descriptor"
)

// Host is what is known of one member.
type Host struct {
	Node     cluster.NodeID
	Priority uint32
	Health   cluster.Health
	// Known says that its share was read, or that it has none.
	Known bool
	// Keys are the addresses that it could publish at once.
	Keys []descriptor.Address
	// Service is its own onion service, Serves what that answers for: none
	// without a descriptor.
	Service descriptor.Address
	Serves  []descriptor.Address
	Weight  uint32 // 0: drained, or serves nothing
	Points  int    // with a circuit
	// Failing says that none of its backends takes connections.
	Failing bool
}

// Input is what a decision is made from.
type Input struct {
	Self cluster.NodeID
	Now  time.Duration
	// Large says that this host reads the shares of few hosts.
	Large bool
	Hosts []Host
	// Addresses are those that the cluster serves.
	Addresses []descriptor.Address
	Duty      lease.Duty
	// Split says that each part of a partition may hold a lease.
	Split  bool
	Logged cluster.Term // the last term in the log
}

// Decision is what to do.
type Decision struct {
	// Term is that under which this host publishes or would. ByLease says that it
	// excludes other publishers of the same and of earlier terms.
	Term    cluster.Term
	ByLease bool
	// Addresses has one entry per address, in the order of Input.Addresses.
	Addresses []Placement
	// Probes are to be sent now, each to be answered by Policy.Answered.
	Probes []Probe
}

// Placement is the part of a decision about one address.
type Placement struct {
	Address descriptor.Address
	// Publisher is who publishes it, as far as is known here, Publish that it is
	// this host, which does so once nobody is Awaited any more.
	Publisher cluster.NodeID
	Publish   bool
	// Awaited are the hosts whose points a first descriptor is to have and that
	// have none for the address yet.
	Awaited []cluster.NodeID
	// Keepers are the living hosts that could publish it at once.
	Keepers []cluster.NodeID
	// Hosts are those whose points belong in its descriptor, in the order of
	// Input.Hosts.
	Hosts []Place
	// LeftOut are hosts with an onion service whose points are not in it, or are a
	// reserve.
	LeftOut []LeftOut
}

// Place is a host in a descriptor.
type Place struct {
	Node cluster.NodeID
	// Reserve says that its points are for the case that no other host has any.
	Reserve bool
}

// LeftOut is a host that clients of an address do not find, and why.
type LeftOut struct {
	Node cluster.NodeID
	Why  string
}

// Why points are left out, for people.
const (
	whyReserve = "its service is unhealthy, that of another host is not"
	whyMute    = "not heard, and not reached behind its onion"
	whyGone    = "not alive"
	whyOther   = "its tor does not answer for the address yet"
)

// Probe asks whether a suspected host answers behind its onion.
type Probe struct {
	Node    cluster.NodeID
	Service descriptor.Address
}

// Policy decides. It remembers what was asked and answered.
type Policy struct {
	probes  map[cluster.NodeID]probe
	awaited awaited
	first   map[descriptor.Address]time.Duration // when each address was first seen
}

// probe is what is known of a suspected host.
type probe struct {
	running bool
	ok      bool
	at      time.Duration // of the answer; 0: none yet
}

// awaited is a publisher whose share was not read yet.
type awaited struct {
	node  cluster.NodeID
	since time.Duration
}

const (
	probeEvery = 10 * time.Second
	maxProbes  = 32 // at once
	// awaitTime is how long a share that was not read keeps its host's place as
	// the publisher.
	awaitTime = time.Minute
	// gatherTime is how long the first descriptor of an address waits at most for
	// hosts that have no points for it yet: who fetched it before goes to those that
	// it lists alone, for hours.
	gatherTime = 10 * time.Second
)

// New returns a policy that has asked nobody yet.
func New() *Policy {
	return &Policy{probes: map[cluster.NodeID]probe{}, first: map[descriptor.Address]time.Duration{}}
}

// Decide says what to do now.
func (p *Policy) Decide(in Input) Decision {
	d := Decision{
		Term: publishTerm(in),
		// Where every part of a partition may hold a lease, one excludes no later one.
		ByLease: in.Duty.Publishing && in.Duty.ByLease && !in.Split,
	}
	known := p.judgesPublisher(in)
	d.Probes = p.probe(in)
	for _, a := range in.Addresses {
		list := keepers(in.Hosts, a)
		x := Placement{Address: a, Publisher: publisher(in, list, known), Keepers: names(list), Awaited: p.gather(in, a)}
		x.Hosts, x.LeftOut = p.places(in, a)
		x.Publish = len(x.Awaited) == 0 && publishes(in, list, known)
		d.Addresses = append(d.Addresses, x)
	}
	maps.DeleteFunc(p.first, func(a descriptor.Address, _ time.Duration) bool { return !slices.Contains(in.Addresses, a) })
	return d
}

// gather names the hosts for which the first descriptor of an address waits: those
// that are alive, serve something or may, since their share was not read yet, and
// have no points for it. It does not wait for points that would be left out, nor for
// shares of a large cluster, most of which are never read.
func (p *Policy) gather(in Input, a descriptor.Address) (missing []cluster.NodeID) {
	since, known := p.first[a]
	if !known {
		since = in.Now
		p.first[a] = since
	}
	if in.Now-since >= gatherTime {
		return nil
	}
	for _, h := range in.Hosts {
		alive := h.Node == in.Self || h.Health == cluster.Alive
		unread := h.Node != in.Self && !h.Known && !in.Large
		pointless := h.Weight > 0 && !h.Failing && (h.Points == 0 || !slices.Contains(h.Serves, a))
		if alive && (unread || pointless) {
			missing = append(missing, h.Node)
		}
	}
	if len(missing) == 0 {
		p.first[a] = in.Now - gatherTime // who comes later is not waited for
	}
	return missing
}

// publisher names the host that publishes an address with these keepers, or is
// about to; empty if that is not known.
func publisher(in Input, list []Host, known bool) cluster.NodeID {
	duty := in.Duty.Publisher
	switch {
	case publishes(in, list, known):
		return in.Self
	case in.Large, slices.ContainsFunc(list, func(h Host) bool { return h.Node == duty }):
		return duty
	case !known || duty == "" || len(list) == 0:
		return ""
	}
	return best(list).Node
}

// best is the keeper that publishes if whoever has the duty cannot.
func best(list []Host) Host {
	return slices.MinFunc(list, func(a, b Host) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Node, b.Node))
	})
}

// publishTerm is the term under which this host publishes or would: that of its
// own lease, which a majority granted, or the last one in the log. The term that
// another host claims counts for nothing until it is in the log.
func publishTerm(in Input) cluster.Term {
	t := in.Logged
	if in.Duty.ByLease && in.Duty.Publisher == in.Self {
		t = max(t, in.Duty.Term)
	}
	return min(t, descriptor.MaxRevisionTerm)
}

// judgesPublisher reports whether this host may judge by the publisher's share
// if it has a key. In a large cluster this host reads few shares, and would
// publish the points of few.
func (p *Policy) judgesPublisher(in Input) bool {
	node := in.Duty.Publisher
	switch {
	case in.Large:
		return false
	case slices.ContainsFunc(in.Hosts, func(h Host) bool { return h.Node == node && h.Known }):
		p.awaited = awaited{}
		return true
	case p.awaited.node != node:
		p.awaited = awaited{node, in.Now}
	}
	return in.Now-p.awaited.since >= awaitTime
}

// publishes decides whether this host publishes an address with these keepers:
// it has the publishing duty and the key, or whoever has the duty is known to
// lack the key and this host is the best of those that have it.
func publishes(in Input, list []Host, known bool) bool {
	has := func(n cluster.NodeID) bool {
		return slices.ContainsFunc(list, func(h Host) bool { return h.Node == n })
	}
	switch {
	case !has(in.Self):
		return false
	case in.Duty.Publishing:
		return true
	case !known || in.Duty.Publisher == "" || has(in.Duty.Publisher):
		return false
	}
	return best(list).Node == in.Self
}

// keepers are the living hosts that could publish an address at once.
func keepers(hosts []Host, a descriptor.Address) (list []Host) {
	for _, h := range hosts {
		if (h.Health == cluster.Alive || h.Health == cluster.Suspect) && slices.Contains(h.Keys, a) {
			list = append(list, h)
		}
	}
	return list
}

func names(hosts []Host) (list []cluster.NodeID) {
	for _, h := range hosts {
		list = append(list, h.Node)
	}
	return list
}

// places are the hosts whose points belong in the descriptor of an address:
// those that answer for it and are alive, or suspected and reached behind their
// onion. Those whose backends all fail are a reserve while another has points.
func (p *Policy) places(in Input, a descriptor.Address) (list []Place, out []LeftOut) {
	var failing []bool
	better := false
	for _, h := range in.Hosts {
		if why := p.absent(in, h, a); why != "" {
			if !h.Service.IsZero() {
				out = append(out, LeftOut{h.Node, why})
			}
			continue
		}
		list, failing = append(list, Place{Node: h.Node}), append(failing, h.Failing)
		better = better || !h.Failing && h.Weight > 0 && h.Points > 0
	}
	for i := range list {
		if better && failing[i] {
			list[i].Reserve = true
			out = append(out, LeftOut{list[i].Node, whyReserve})
		}
	}
	return list, out
}

// absent says why the points of a host do not belong in the descriptor of an
// address; empty: they do.
func (p *Policy) absent(in Input, h Host, a descriptor.Address) string {
	switch {
	case h.Node == in.Self || h.Health == cluster.Alive:
	case h.Health != cluster.Suspect:
		return whyGone
	case !p.answers(h.Node):
		return whyMute
	}
	if !slices.Contains(h.Serves, a) {
		return whyOther
	}
	return ""
}

// probe chooses the suspected hosts to ask now: each every probeEvery, a limited
// number at once.
func (p *Policy) probe(in Input) (list []Probe) {
	running := 0
	for n, x := range p.probes {
		switch {
		case x.running:
			running++
		case in.Now-x.at >= 2*probeEvery:
			delete(p.probes, n) // an answer of an earlier suspicion says nothing
		}
	}
	for _, h := range in.Hosts {
		suspect := h.Node != in.Self && h.Health == cluster.Suspect
		if !suspect || !slices.ContainsFunc(in.Addresses, func(a descriptor.Address) bool { return slices.Contains(h.Serves, a) }) {
			continue
		}
		x := p.probes[h.Node]
		if x.running || running >= maxProbes || x.at > 0 && in.Now-x.at < probeEvery {
			continue
		}
		running++
		x.running = true
		p.probes[h.Node] = x
		list = append(list, Probe{h.Node, h.Service})
	}
	return list
}

// answers reports whether a suspected host answers behind its onion, as far as
// is known.
func (p *Policy) answers(node cluster.NodeID) bool {
	x := p.probes[node]
	return x.at == 0 || x.ok
}

// Answered takes the result of a probe.
func (p *Policy) Answered(node cluster.NodeID, ok bool, now time.Duration) {
	p.probes[node] = probe{ok: ok, at: max(now, 1)}
}
