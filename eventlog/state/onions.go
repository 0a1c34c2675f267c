package state

import (
	"bytes"
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// onionKey is the public key of an onion address.
type onionKey [32]byte

// onion is a register whose value of the highest version counts.
type onion struct {
	version uint64
	removed bool
	clients []event.OnionClient // sorted and never changed
	actor   string
}

// Onion is an address that the cluster serves.
type Onion struct {
	Key     [32]byte            `json:"key"`
	Version uint64              `json:"version"`
	Clients []event.OnionClient `json:"clients,omitempty"` // not to be changed
	Actor   string              `json:"actor"`             // who set it last
	At      cluster.HLC         `json:"at"`
}

// onionSet folds what the owner of an address's key says.
func (s *State) onionSet(e *event.Event, b event.OnionSet) {
	if b.Check() != nil {
		s.malformed++
		return
	}
	k, at := onionKey(b.Key), keyOf(e)
	old, known := s.onions[k]
	if known && (b.Version < old.v.version || b.Version == old.v.version && !old.at.less(at)) {
		return
	}
	s.onions[k] = stamped[onion]{at: at, v: onion{version: b.Version, removed: b.Removed, clients: b.Clients, actor: clip(b.Actor, maxActor)}}
}

// Onions returns the addresses that the cluster serves, those first that were
// set earlier.
func (s *State) Onions() []Onion {
	var out []Onion
	for _, k := range s.onionKeys() {
		if !s.onions[k].v.removed {
			out = append(out, s.Onion(k))
		}
	}
	slices.SortStableFunc(out, func(a, b Onion) int { return s.onions[a.Key].at.compare(s.onions[b.Key].at) })
	return out
}

// Onion is an address as it was last set, removed or not; its version is 0 if it
// never was.
func (s *State) Onion(k [32]byte) Onion {
	o := s.onions[k]
	return Onion{Key: k, Version: o.v.version, Clients: o.v.clients, Actor: o.v.actor, At: o.at.hlc}
}

func (s *State) onionKeys() []onionKey {
	return slices.SortedFunc(maps.Keys(s.onions), func(a, b onionKey) int { return bytes.Compare(a[:], b[:]) })
}

func (s *State) encodeOnions(e *encoder) {
	e.count(len(s.onions))
	for _, k := range s.onionKeys() {
		o := s.onions[k]
		e.text(string(k[:]))
		e.key(o.at)
		e.num(o.v.version)
		e.flag(o.v.removed)
		e.text(o.v.actor)
		e.count(len(o.v.clients))
		for _, c := range o.v.clients {
			e.text(c.Name)
			e.text(string(c.Key))
		}
		e.flush(hashBuffer)
	}
}

// onions reads addresses whose signatures were checked when they were folded.
func (d *decoder) onions(s *State) {
	for n := d.count(); n > 0 && d.err == nil; n-- {
		b := event.OnionSet{Key: []byte(d.text(maxKeyLen))}
		at := d.key()
		b.Version, b.Removed, b.Actor = d.num(), d.flag(), d.text(maxActor)
		for n := d.count(); n > 0 && d.err == nil; n-- {
			b.Clients = append(b.Clients, event.OnionClient{Name: d.text(maxActor), Key: []byte(d.text(maxKeyLen))})
		}
		d.check(d.err == nil && b.CheckForm() == nil, "onion address")
		if d.err != nil {
			return
		}
		s.onions[onionKey(b.Key)] = stamped[onion]{at: at, v: onion{version: b.Version, removed: b.Removed, clients: b.Clients, actor: b.Actor}}
	}
}
