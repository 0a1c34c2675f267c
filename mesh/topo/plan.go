package topo

import (
	"bytes"
	"cmp"
	"net/netip"
	"slices"

	"github.com/skein-project/skein/cluster"
)

// Input is what a Plan is made from.
type Input struct {
	Self    cluster.Member   // its WGPub is the device's public key
	Members []cluster.Member // Self among them is ignored
	// Static endpoints of the operator's configuration, tried first.
	Static map[cluster.NodeID][]netip.AddrPort
	// Observed endpoints are those at which other hosts see the node.
	Observed map[cluster.NodeID][]netip.AddrPort
	// Cached endpoints that once worked, tried last.
	Cached map[cluster.NodeID][]netip.AddrPort
	// Underlay are the networks of this host's own interfaces without the
	// mesh's. Endpoints in them are tried first.
	Underlay []netip.Prefix
	// Routes are this host's other routes, without those of the mesh. Private
	// addresses outside of Underlay are candidates only if one of these that
	// is no default route covers them. If both are empty nothing is known of
	// the host's networks and every address is a candidate.
	Routes []netip.Prefix
	Port   uint16
	MTU    int
	// Now is the wall time in seconds since the Unix epoch, 0 if unknown. At a
	// member's NextAt its NextWG takes the place of its WGPub.
	Now int64
}

// Conflict is a member that cannot be a peer as its records say.
type Conflict struct {
	Loser  cluster.NodeID
	Winner cluster.NodeID // who has what both claim; empty if nobody
	What   string
	// Self is set if the loser is this host: it needs another certificate.
	Self bool
}

// String returns the conflict as a phrase for logs.
func (c Conflict) String() string {
	s := string(c.Loser) + ": " + c.What
	if c.Winner != "" {
		s += " " + string(c.Winner)
	}
	return s
}

// Kinds of Conflict.
const (
	ConflictKey     = "no usable wireguard key"
	ConflictAddr    = "no usable mesh address"
	ConflictNode    = "same node id as"
	ConflictWGKey   = "same wireguard key as"
	ConflictAddress = "same mesh address as"
)

// Plan returns the device that self should have: a peer for every other
// member with one /32 and one /128, as far as it has both.
//
// Members are normally free of conflicts, because the membership table
// refuses records that claim what another has. Should two still claim the
// same node id, WireGuard key or address, as after a restored backup, the
// earlier certificate wins and then the lower identity key, so that all hosts
// decide alike. The loser is no peer at all and is reported. If that is self,
// the winner is a peer for the addresses that self does not have.
//
// A key that a member announces to change to is that peer's Next, and its Key
// from NextAt on, unless another member has it.
func Plan(in Input) (Desired, []Conflict) {
	d := Desired{Port: in.Port, MTU: in.MTU}
	copy(d.Key[:], in.Self.WGPub)
	d.Addrs, _ = prefixes(in.Self)
	isSelf := func(m cluster.Member) bool { return m.Node == in.Self.Node && bytes.Equal(m.IDPub, in.Self.IDPub) }

	members := append(slices.DeleteFunc(slices.Clone(in.Members), isSelf), in.Self)
	slices.SortStableFunc(members, func(a, b cluster.Member) int {
		return cmp.Or(cmp.Compare(a.CertIssued, b.CertIssued), bytes.Compare(a.IDPub, b.IDPub), cmp.Compare(a.Node, b.Node))
	})
	taken := claims{
		nodes: map[cluster.NodeID]bool{},
		keys:  map[Key]cluster.NodeID{},
		addrs: map[netip.Prefix]cluster.NodeID{},
	}
	var (
		conflicts []Conflict
		peers     []Peer
		accepted  []cluster.Member
	)
	for _, m := range members {
		p, conflict := claim(m, taken)
		if conflict != nil {
			conflict.Self = isSelf(m)
			conflicts = append(conflicts, *conflict)
			continue
		}
		taken.add(p.Node, p.Key, p.Allowed)
		if !isSelf(m) {
			peers, accepted = append(peers, p), append(accepted, m)
		}
	}
	net := newNetwork(in)
	for i, p := range peers {
		p.Allowed = slices.DeleteFunc(p.Allowed, func(a netip.Prefix) bool { return slices.Contains(d.Addrs, a) })
		if p.Key == d.Key || p.Node == in.Self.Node || len(p.Allowed) == 0 {
			continue // self has lost to it
		}
		p.rekey(accepted[i], taken, in.Now)
		p.Endpoints = net.candidates(in, p.Node, accepted[i].Endpoints)
		if in.Self.NAT || accepted[i].NAT {
			p.Keepalive = NATKeepalive
		}
		d.Peers = append(d.Peers, p)
	}
	slices.SortFunc(d.Peers, func(a, b Peer) int { return cmp.Compare(a.Node, b.Node) })
	slices.SortStableFunc(conflicts, func(a, b Conflict) int { return cmp.Compare(a.Loser, b.Loser) })
	return d, conflicts
}

// claims is what members decided so far have.
type claims struct {
	nodes map[cluster.NodeID]bool
	keys  map[Key]cluster.NodeID
	addrs map[netip.Prefix]cluster.NodeID
}

func (c claims) add(n cluster.NodeID, k Key, ps []netip.Prefix) {
	c.nodes[n] = true
	c.keys[k] = n
	for _, p := range ps {
		c.addrs[p] = n
	}
}

// claim returns the peer with the keys and addresses that m claims.
func claim(m cluster.Member, taken claims) (Peer, *Conflict) {
	key, err := KeyFrom(m.WGPub)
	if err != nil {
		return Peer{}, &Conflict{Loser: m.Node, What: ConflictKey}
	}
	allowed, ok := prefixes(m)
	if !ok {
		return Peer{}, &Conflict{Loser: m.Node, What: ConflictAddr}
	}
	if taken.nodes[m.Node] {
		return Peer{}, &Conflict{Loser: m.Node, Winner: m.Node, What: ConflictNode}
	}
	if w, has := taken.keys[key]; has {
		return Peer{}, &Conflict{Loser: m.Node, Winner: w, What: ConflictWGKey}
	}
	for _, a := range allowed {
		if w, has := taken.addrs[a]; has {
			return Peer{}, &Conflict{Loser: m.Node, Winner: w, What: ConflictAddress}
		}
	}
	return Peer{Node: m.Node, Key: key, Allowed: allowed}, nil
}

// rekey takes the key that m announces into account. It comes after all
// members have claimed theirs: announcing a key must not take it from its
// owner.
func (p *Peer) rekey(m cluster.Member, taken claims, now int64) {
	next, err := KeyFrom(m.NextWG)
	if err != nil {
		return
	}
	if _, has := taken.keys[next]; has {
		return
	}
	taken.keys[next] = m.Node
	if now != 0 && m.NextAt != 0 && now >= m.NextAt {
		p.Key = next
		return
	}
	p.Next = next
}

// prefixes returns the host prefixes of m's mesh addresses; ok is false if it
// has none or one of them cannot be used.
func prefixes(m cluster.Member) (ps []netip.Prefix, ok bool) {
	for _, a := range []netip.Addr{m.IP4, m.IP6} {
		if !a.IsValid() {
			continue
		}
		p := HostPrefix(a)
		if !hostPrefix(p) {
			return ps, false
		}
		ps = append(ps, p)
	}
	return ps, len(ps) > 0
}
