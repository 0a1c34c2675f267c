package publisher

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/publisher/descriptor"
)

// roster knows the last good descriptor of each host.
type roster struct{ hosts map[cluster.NodeID]*entry }

type entry struct {
	Host
	period descriptor.Period
	desc   *descriptor.Descriptor // nil: none yet
	judged bool                   // Text was looked at
}

// set takes the hosts as they are now. Hosts that are not named are gone.
func (r *roster) set(hosts []Host) {
	next := make(map[cluster.NodeID]*entry, len(hosts))
	for _, h := range hosts {
		e := r.hosts[h.Node]
		if e == nil || e.Address != h.Address {
			e = &entry{}
		}
		e.judged = e.judged && bytes.Equal(e.Text, h.Text)
		e.Host = h
		next[h.Node] = e
	}
	r.hosts = next
}

// open looks at the texts that are new. What cannot be used is returned, and
// leaves what the host had before.
func (r *roster) open(periods []descriptor.Period, now time.Time) (refused []Refused) {
	for _, e := range r.sorted() {
		if e.judged || len(e.Text) == 0 {
			continue
		}
		e.judged = true
		if err := e.open(periods, now); err != nil {
			refused = append(refused, Refused{e.Node, fmt.Errorf("descriptor from %s: %w", e.Node, err)})
		}
	}
	return refused
}

func (e *entry) open(periods []descriptor.Period, now time.Time) error {
	s, err := descriptor.Parse(e.Text, now)
	if err != nil {
		return err
	}
	p, err := s.Period(e.Address, periods)
	if err != nil {
		return err
	}
	if e.desc != nil && (p.Number < e.period.Number || p == e.period && s.Revision < e.desc.Revision) {
		return fmt.Errorf("%w: revision %d of %s", ErrReplayed, s.Revision, p)
	}
	d, err := s.Open(e.Address, p, nil, now)
	if err != nil {
		return err
	}
	if len(d.Points) == 0 {
		return descriptor.ErrNoPoints
	}
	e.desc, e.period = d, p
	return nil
}

// again has every text looked at once more, since the periods changed.
func (r *roster) again() {
	for _, e := range r.hosts {
		e.judged = e.judged && e.desc != nil
	}
}

func (r *roster) sorted() []*entry {
	all := make([]*entry, 0, len(r.hosts))
	for _, e := range r.hosts {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.Node, b.Node) })
	return all
}

// candidates returns what the hosts have to offer, and the lines that all of
// them carry. A reserve counts if no other host has points.
func (r *roster) candidates() (all []descriptor.Candidate, header []string) {
	var opened []*descriptor.Descriptor
	sorted := r.sorted()
	others := slices.ContainsFunc(sorted, func(e *entry) bool {
		return !e.Reserve && e.desc != nil && e.Weight > 0 && len(e.standing()) > 0
	})
	for _, e := range sorted {
		if e.desc != nil && e.Weight > 0 && (!others || !e.Reserve) {
			all = append(all, descriptor.Candidate{Node: e.Node, Weight: e.Weight, Points: e.standing()})
			opened = append(opened, e.desc)
		}
	}
	return all, descriptor.CommonHeader(opened)
}

// standing are the points whose relays have a circuit, as far as that is known.
func (e *entry) standing() []descriptor.Point {
	if e.Relays == nil {
		return e.desc.Points
	}
	return slices.DeleteFunc(slices.Clone(e.desc.Points), func(p descriptor.Point) bool { return !slices.Contains(e.Relays, p.Relay) })
}

// digest names the content: the same hosts with the same points in any order
// have the same one. It is zero if there are no points.
func digest(all []descriptor.Candidate, header []string) (sum [32]byte) {
	points := 0
	h := sha256.New()
	for _, c := range all {
		own := slices.Clone(c.Points)
		slices.SortFunc(own, func(a, b descriptor.Point) int { return bytes.Compare(a.AuthKey[:], b.AuthKey[:]) })
		fmt.Fprintf(h, "%s %d %d\n", c.Node, c.Weight, len(own))
		for _, p := range own {
			_ = binary.Write(h, binary.BigEndian, uint64(len(p.Links)))
			_, _ = h.Write(slices.Concat([]byte(p.Links), p.OnionKey[:], p.AuthKey[:], p.EncKey[:], p.EncCert[:]))
		}
		points += len(own)
	}
	fmt.Fprintf(h, "%q", header)
	if points > 0 {
		h.Sum(sum[:0])
	}
	return sum
}
