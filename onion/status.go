package onion

import (
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/publisher"
	"github.com/skein-project/skein/publisher/descriptor"
)

// Status is what an operator sees; it is not to be changed.
type Status struct {
	Addresses []AddressStatus
	Hosts     map[cluster.NodeID]HostStatus
	// Problems are keys that could not be read, for people.
	Problems []string
	// WrongMaster counts introductions for an address that this host does not
	// serve.
	WrongMaster uint64
}

// AddressStatus is an address that the cluster serves.
type AddressStatus struct {
	state.Onion
	Keepers   []cluster.NodeID  // living hosts that could publish it
	HasKey    bool              // on this host
	Publisher *publisher.Status // of this host; nil: none runs
}

// HostStatus is what this host knows of another's share, or of its own.
type HostStatus struct {
	Share    publisher.Share
	Err      string // why its last share was refused
	Backends []wire.Backend
	// Placed says that it is a host of some address; Reserve that its points are
	// left out of the descriptors, since all its backends fail and others' do not.
	Placed, Reserve bool
}

// placed counts the hosts of the addresses.
func (s *Status) placed() (n int) {
	for _, h := range s.Hosts {
		if h.Placed {
			n++
		}
	}
	return n
}

// serving counts the hosts whose points belong in the descriptors.
func (s *Status) serving() (n int) {
	for _, h := range s.Hosts {
		if h.Placed && !h.Reserve {
			n++
		}
	}
	return n
}

// Status returns how the onion addresses are.
func (h *Host) Status() Status {
	st := *h.status.Load()
	st.Addresses = slices.Clone(st.Addresses)
	for i := range st.Addresses {
		_, st.Addresses[i].HasKey = h.keys.get(st.Addresses[i].Key)
	}
	st.Hosts = maps.Clone(st.Hosts)
	st.Problems, st.WrongMaster = h.keys.problems(), h.wrong.Load()
	return st
}

// Keepers are the living hosts that could publish an address, as of the last
// look.
func (h *Host) Keepers(a descriptor.Address) []cluster.NodeID {
	for _, x := range h.status.Load().Addresses {
		if x.Key == a {
			return x.Keepers
		}
	}
	return nil
}

// Points is how many introduction points of this host have a circuit.
func (h *Host) Points() uint32 { return h.points.Load() }

// LastPublished is when this host published something, in seconds since the
// epoch; 0: not since it started.
func (h *Host) LastPublished() uint64 { return h.pubs.last.Load() }
