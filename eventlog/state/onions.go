package state

import (
	"bytes"
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state/canon"
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

// onions are the addresses that were ever set, by their keys.
type onions map[onionKey]canon.Register[onion]

// Onion is an address that the cluster serves.
type Onion struct {
	Key     [32]byte            `json:"key"`
	Version uint64              `json:"version"`
	Clients []event.OnionClient `json:"clients,omitempty"` // not to be changed
	Actor   string              `json:"actor"`             // who set it last
	At      cluster.HLC         `json:"at"`
}

// set folds what the owner of an address's key says. It reports false if the
// event cannot be what it says.
func (os onions) set(e *event.Event, b event.OnionSet) bool {
	if b.Check() != nil {
		return false
	}
	k, at := onionKey(b.Key), canon.KeyOf(e)
	old, known := os[k]
	if known && (b.Version < old.V.version || b.Version == old.V.version && !old.At.Less(at)) {
		return true
	}
	os[k] = canon.Register[onion]{At: at, V: onion{version: b.Version, removed: b.Removed, clients: b.Clients, actor: canon.Clip(b.Actor, maxActor)}}
	return true
}

// Onions returns the addresses that the cluster serves, those first that were
// set earlier.
func (os onions) Onions() []Onion {
	var out []Onion
	for _, k := range os.keys() {
		if !os[k].V.removed {
			out = append(out, os.Onion(k))
		}
	}
	slices.SortStableFunc(out, func(a, b Onion) int { return os[a.Key].At.Compare(os[b.Key].At) })
	return out
}

// Onion is an address as it was last set, removed or not; its version is 0 if it
// never was.
func (os onions) Onion(k [32]byte) Onion {
	o := os[k]
	return Onion{Key: k, Version: o.V.version, Clients: o.V.clients, Actor: o.V.actor, At: o.At.HLC}
}

func (os onions) keys() []onionKey {
	return slices.SortedFunc(maps.Keys(os), func(a, b onionKey) int { return bytes.Compare(a[:], b[:]) })
}

func (os onions) write(w *canon.Writer) {
	w.Count(len(os))
	for _, k := range os.keys() {
		o := os[k]
		w.Text(string(k[:]))
		w.Key(o.At)
		w.Num(o.V.version)
		w.Flag(o.V.removed)
		w.Text(o.V.actor)
		w.Count(len(o.V.clients))
		for _, c := range o.V.clients {
			w.Text(c.Name)
			w.Text(string(c.Key))
		}
		w.Flush()
	}
}

// read reads addresses whose signatures were checked when they were folded.
func (os onions) read(r *canon.Reader) {
	for n := r.Count(); n > 0 && r.OK(); n-- {
		b := event.OnionSet{Key: []byte(r.Text(maxKeyLen))}
		at := r.Key()
		b.Version, b.Removed, b.Actor = r.Num(), r.Flag(), r.Text(maxActor)
		for n := r.Count(); n > 0 && r.OK(); n-- {
			b.Clients = append(b.Clients, event.OnionClient{Name: r.Text(maxActor), Key: []byte(r.Text(maxKeyLen))})
		}
		r.Check(r.OK() && b.CheckForm() == nil, "onion address")
		if !r.OK() {
			return
		}
		os[onionKey(b.Key)] = canon.Register[onion]{At: at, V: onion{version: b.Version, removed: b.Removed, clients: b.Clients, actor: b.Actor}}
	}
}
