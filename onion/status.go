package onion

import (
	"fmt"
	"maps"
	"slices"
	"strings"

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
	// Check is what makes a target of this host healthy; empty without one.
	Check string
	// OperatorAddress is where Operators find this host's page; empty: nobody does, or
	// tor has not made its key.
	OperatorAddress string
	Operators       []string
	// Problems are keys that could not be read, for people.
	Problems []string
	// WrongMaster counts introductions for an address that this host does not
	// serve.
	WrongMaster uint64
}

// AddressStatus is an address that the cluster serves.
type AddressStatus struct {
	state.Onion
	Keepers     []cluster.NodeID  // living hosts that could publish it
	PublishedBy cluster.NodeID    // empty: not known
	Awaited     []cluster.NodeID  // for whose points the first descriptor waits
	HasKey      bool              // on this host
	Publisher   *publisher.Status // of this host; nil: none runs
}

// HostStatus is what this host knows of another's share, or of its own.
type HostStatus struct {
	Share    publisher.Share
	Err      string // why its last share was refused
	Backends []wire.Backend
	// Failing says that all of its backends are unhealthy.
	Failing bool
	// Asked is how many introduction points its tor is to keep; 0: not known, as of
	// other hosts.
	Asked int
	// Placed says that it is a host of some address; Reserve that its points are
	// left out of the descriptors, since all its backends fail and others' do not.
	Placed, Reserve bool
	// LeftOut says why its points are left out of the descriptor of some address.
	LeftOut string
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

// failing counts the hosts of the addresses all of whose backends are unhealthy.
func (s *Status) failing() (n int) {
	for _, h := range s.Hosts {
		if h.Placed && h.Failing {
			n++
		}
	}
	return n
}

// Faults says which hosts of the addresses have backends that are unhealthy, and
// what becomes of them, in the order of their names.
func (s *Status) Faults() (list []string) {
	for _, n := range slices.Sorted(maps.Keys(s.Hosts)) {
		h := s.Hosts[n]
		var bad []string
		for _, b := range h.Backends {
			if !b.Healthy {
				bad = append(bad, b.Name)
			}
		}
		names := ""
		if len(bad) > 0 {
			names = ": " + strings.Join(bad, " ")
		}
		switch {
		case !h.Placed || !h.Failing && len(bad) == 0:
		case !h.Failing:
			list = append(list, fmt.Sprintf("%d of %d onion targets of %s unhealthy%s", len(bad), len(h.Backends), n, names))
		case h.Reserve:
			list = append(list, fmt.Sprintf("onion target of %s unhealthy (its points are left out)%s", n, names))
		default:
			list = append(list, fmt.Sprintf("onion target of %s unhealthy (its points stay, no host has a healthy one)%s", n, names))
		}
	}
	return list
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
	st.OperatorAddress, st.Operators = h.operators.found()
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
