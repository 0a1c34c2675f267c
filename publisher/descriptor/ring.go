package descriptor

import (
	"bytes"
	"fmt"
	"slices"
	"time"
)

// Slot says for which period a descriptor is and which shared random value
// arranges its directories.
type Slot struct {
	Period Period
	SRV    [32]byte
}

// Schedule is what a consensus says about time: at each moment there are two
// descriptors, so that clients with an older or a newer consensus find one.
type Schedule struct {
	First, Second Slot
	// AfterSRV is true from a new shared random value to the next period, in
	// the public network from 00:00 to 12:00 UTC.
	AfterSRV bool
}

// Fetched returns the slot of the descriptor that clients ask for.
func (s Schedule) Fetched() Slot {
	if s.AfterSRV {
		return s.First
	}
	return s.Second
}

// Periods returns those in which a descriptor of a host may be, the most
// likely first.
func (s Schedule) Periods() []Period {
	f := s.Fetched().Period
	return []Period{f, {f.Number + 1, f.Length}, {f.Number - 1, f.Length}}
}

// Schedule computes the two slots. In a testing network periods follow from
// the time between votes, not from hsdir_interval.
func (c *Consensus) Schedule(testing bool) (Schedule, error) {
	va, vi := c.ValidAfter.Unix(), int64(c.FreshUntil.Sub(c.ValidAfter)/time.Second)
	if va <= 0 || vi <= 0 {
		return Schedule{}, fmt.Errorf("%w: valid after %v, fresh until %v", ErrConsensus, c.ValidAfter, c.FreshUntil)
	}
	length, offset := int64(c.Interval/time.Minute), 12*vi/60
	if testing {
		length = 24 * vi / 60
	}
	number := va/60 - offset
	if length <= 0 || number < length {
		return Schedule{}, fmt.Errorf("%w: no time period of %d min at %v", ErrConsensus, length, c.ValidAfter)
	}
	number /= length

	runStart := va - va/vi%24*vi
	next := (runStart/60-offset)/length + 1
	s := Schedule{AfterSRV: va >= runStart && va < (next*length+offset)*60}
	first, second := number, number+1
	if !s.AfterSRV {
		first, second = number-1, number
	}
	s.First = slot(first, length, c.PreviousSRV)
	s.Second = slot(second, length, c.CurrentSRV)
	return s, nil
}

func slot(number, length int64, srv *[32]byte) Slot {
	s := Slot{Period: Period{uint64(number), uint64(length)}}
	if srv != nil {
		s.SRV = *srv
	} else {
		s.SRV = sum3([]byte("shared-random-disaster"), int8s(s.Period.Length, s.Period.Number))
	}
	return s
}

// Ring is the order of the directories for one slot.
type Ring struct {
	period              Period
	nodes               []ringNode
	replicas            int
	spreadStore, spread int
}

type ringNode struct {
	index [32]byte
	relay Fingerprint
}

// Ring joins the consensus with the microdescriptors and sorts the directories
// for the slot. Relays whose microdescriptor is unknown are left out, as tor
// does.
func (c *Consensus) Ring(mds Microdescs, s Slot) (*Ring, error) {
	r := &Ring{period: s.Period, replicas: c.Replicas, spreadStore: c.SpreadStore, spread: c.SpreadFetch}
	for _, d := range c.Dirs {
		if id, ok := mds[d.Microdesc]; ok {
			r.nodes = append(r.nodes, ringNode{nodeIndex(id, s), d.Fingerprint})
		}
	}
	if len(r.nodes) == 0 {
		return nil, fmt.Errorf("%w: %d with the flag, %d microdescriptors", ErrNoDirs, len(c.Dirs), len(mds))
	}
	slices.SortFunc(r.nodes, func(a, b ringNode) int {
		if n := bytes.Compare(a.index[:], b.index[:]); n != 0 {
			return n
		}
		return bytes.Compare(a.relay[:], b.relay[:])
	})
	return r, nil
}

// Len returns the number of directories.
func (r *Ring) Len() int { return len(r.nodes) }

// Store returns the directories to which the descriptor under the blinded key
// belongs.
func (r *Ring) Store(b Blinded) []Fingerprint { return r.responsible(b, r.spreadStore) }

// Fetch returns those that clients ask.
func (r *Ring) Fetch(b Blinded) []Fingerprint { return r.responsible(b, r.spread) }

func (r *Ring) responsible(b Blinded, spread int) []Fingerprint {
	out := make([]Fingerprint, 0, r.replicas*spread)
	for replica := 1; replica <= r.replicas; replica++ {
		index := serviceIndex(b, uint64(replica), r.period)
		at, _ := slices.BinarySearchFunc(r.nodes, index, func(n ringNode, want [32]byte) int {
			return bytes.Compare(n.index[:], want[:])
		})
		for n, left := 0, spread; n < len(r.nodes) && left > 0; n++ {
			relay := r.nodes[(at+n)%len(r.nodes)].relay
			if !slices.Contains(out, relay) {
				out = append(out, relay)
				left--
			}
		}
	}
	return out
}

// The two indices have the period's number and length in opposite order.
func nodeIndex(id [32]byte, s Slot) [32]byte {
	return sum3([]byte("node-idx"), id[:], s.SRV[:], int8s(s.Period.Number, s.Period.Length))
}

func serviceIndex(b Blinded, replica uint64, p Period) [32]byte {
	return sum3([]byte("store-at-idx"), b[:], int8s(replica, p.Length, p.Number))
}
