package onionnet

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/publisher"
	"github.com/skein-project/skein/publisher/descriptor"
)

// Roster stands for the mesh and the health of its hosts: what each host has,
// told to every publisher.
type Roster struct {
	mu         sync.Mutex
	hosts      map[cluster.NodeID]publisher.Host
	dead       map[cluster.NodeID]bool
	publishers map[*Publisher]bool
}

// NewRoster returns one without hosts.
func NewRoster() *Roster {
	return &Roster{hosts: map[cluster.NodeID]publisher.Host{}, dead: map[cluster.NodeID]bool{}, publishers: map[*Publisher]bool{}}
}

// Set says what a host has. It counts as alive from then on, until Dead.
func (r *Roster) Set(node cluster.NodeID, a descriptor.Address, text []byte) {
	r.change(func() bool {
		h, ok := r.hosts[node]
		if !ok {
			h.Weight = 1
		}
		same := ok && !r.dead[node] && h.Address == a && bytes.Equal(h.Text, text)
		h.Node, h.Address, h.Text = node, a, text
		r.hosts[node], r.dead[node] = h, false
		return !same
	})
}

// Dead takes a host out.
func (r *Roster) Dead(node cluster.NodeID) {
	r.change(func() bool { r.dead[node] = true; return true })
}

// Weigh sets a host's weight; 0 drains it.
func (r *Roster) Weigh(node cluster.NodeID, weight uint32) {
	r.change(func() bool {
		h := r.hosts[node]
		h.Weight = weight
		r.hosts[node] = h
		return true
	})
}

func (r *Roster) change(f func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !f() {
		return
	}
	now, hosts := time.Now(), r.alive()
	for p := range r.publishers {
		p.told(now, hosts)
		p.pub.SetHosts(hosts)
	}
}

func (r *Roster) alive() []publisher.Host {
	all := slices.DeleteFunc(slices.Collect(maps.Values(r.hosts)), func(h publisher.Host) bool { return r.dead[h.Node] })
	slices.SortFunc(all, func(a, b publisher.Host) int { return strings.Compare(string(a.Node), string(b.Node)) })
	return all
}

// Texts returns what the hosts have, by name.
func (r *Roster) Texts() map[cluster.NodeID]publisher.Host {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.hosts)
}

func (r *Roster) add(p *Publisher) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.publishers[p] = true
	hosts := r.alive()
	p.told(time.Now(), hosts)
	p.pub.SetHosts(hosts)
}

func (r *Roster) remove(p *Publisher) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.publishers, p)
}
