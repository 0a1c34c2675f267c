package onion

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/onion/policy"
	"github.com/skein-project/skein/publisher"
	"github.com/skein-project/skein/publisher/descriptor"
)

// View is what this host knows of the cluster's hosts.
type View struct {
	Members []Member // this host too, sorted by name
	// Large says that this host gets the shares of few hosts, Split that each
	// part of a partition may hold a lease.
	Large, Split bool
}

// Member is what is known of one host.
type Member struct {
	Node     cluster.NodeID
	Priority uint32
	Health   cluster.Health
	// Pieces are those of its share, none if it has none; Digest is of them. Known
	// says that they are what it said last.
	Pieces [][]byte
	Digest wire.Digest
	Known  bool
	// Backends is what it said of its backends lately.
	Backends []wire.Backend
}

// received is what a host said of its share.
type received struct {
	digest wire.Digest // of its pieces
	share  publisher.Share
	err    error
}

// shares reads what the hosts say; one that cannot be read leaves what the host
// said before. The loop owns it.
type shares struct{ hosts map[cluster.NodeID]*received }

func newShares() *shares { return &shares{hosts: map[cluster.NodeID]*received{}} }

// read takes in a view and returns what is refused, each once.
func (s *shares) read(v View) (refused []publisher.Refused) {
	members := map[cluster.NodeID]bool{}
	for _, m := range v.Members {
		members[m.Node] = true
		r := s.hosts[m.Node]
		if len(m.Pieces) == 0 {
			if r != nil && m.Health != cluster.Dead {
				delete(s.hosts, m.Node) // it says that it has none
			}
			continue
		}
		if r != nil && r.digest == m.Digest {
			continue
		}
		if r == nil {
			r = &received{}
			s.hosts[m.Node] = r
		}
		r.digest = m.Digest
		share, err := publisher.DecodeShare(m.Node, m.Pieces)
		if r.err = err; err != nil {
			refused = append(refused, publisher.Refused{Node: m.Node, Err: fmt.Errorf("share of %s: %w", m.Node, err)})
			continue
		}
		r.share = share
	}
	maps.DeleteFunc(s.hosts, func(n cluster.NodeID, _ *received) bool { return !members[n] })
	return refused
}

// policy is what the policy has to know of the hosts.
func (s *shares) policy(v View) []policy.Host {
	list := make([]policy.Host, 0, len(v.Members))
	for _, m := range v.Members {
		h := policy.Host{Node: m.Node, Priority: m.Priority, Health: m.Health, Known: m.Known || s.hosts[m.Node] != nil}
		if r := s.hosts[m.Node]; r != nil {
			h.Keys = r.share.Keys
			h.Weight, h.Points, h.Failing = r.share.Weight, len(r.share.Relays), failing(r.share, m.Backends)
			if !r.share.Address.IsZero() && len(r.share.Text) > 0 {
				h.Service, h.Serves = r.share.Address, r.share.Serves
			}
		}
		list = append(list, h)
	}
	return list
}

// failing reports whether none of a host's backends takes connections: by its
// share, which a host of any version sends when that changes, or by what it says
// of each backend and repeats.
func failing(s publisher.Share, backends []wire.Backend) bool {
	all := len(backends) > 0 && !slices.ContainsFunc(backends, func(b wire.Backend) bool { return b.Healthy })
	return !s.Healthy || all
}

// at are the hosts of a placement, as a publisher takes them.
func (s *shares) at(places []policy.Place) []publisher.Host {
	var list []publisher.Host
	for _, p := range places {
		r := s.hosts[p.Node]
		if r == nil {
			continue
		}
		relays := r.share.Relays
		if relays == nil {
			relays = []descriptor.Fingerprint{} // known to be none
		}
		list = append(list, publisher.Host{
			Node: p.Node, Address: r.share.Address, Weight: r.share.Weight, Text: r.share.Text, Relays: relays, Reserve: p.Reserve,
		})
	}
	return list
}

// proof says that an instance is this host's.
type proof struct {
	address descriptor.Address
	sig     [64]byte
}

// ownShare is what this host says of itself; the loop owns it.
type ownShare struct {
	node  cluster.NodeID
	proof proof  // of the present instance
	sent  string // pieces, last
}

// prove signs with the key of an instance that it is this host's.
func (o *ownShare) prove(keyFile string, a descriptor.Address) ([64]byte, error) {
	if o.proof.address == a {
		return o.proof.sig, nil
	}
	key, err := readOnionKey(keyFile, a)
	if err != nil {
		return o.proof.sig, fmt.Errorf("key of this host's onion service: %w", err)
	}
	o.proof = proof{a, [64]byte(key.Sign(publisher.ProofText(o.node)))}
	return o.proof.sig, nil
}

// publish passes the pieces of a share to send if they changed.
func (o *ownShare) publish(s publisher.Share, send func(pieces [][]byte, at time.Time) error) (changed bool, err error) {
	pieces, err := s.Encode()
	if err != nil {
		return false, err
	}
	text := string(slices.Concat(pieces...))
	if text == o.sent {
		return false, nil
	}
	if err := send(pieces, time.Now()); err != nil {
		return false, err
	}
	o.sent = text
	return true, nil
}
