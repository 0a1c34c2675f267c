package zonewatch

import (
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/overload"
)

// Pauses before a host that did not answer is asked again.
const (
	pauseMin = time.Second
	pauseMax = 30 * time.Second
)

// relaysOf lists the hosts that may ask for this one, in order: those of its zone that
// come before it by name, live, and do not refuse followers. None: this host asks by
// itself.
func relaysOf(v *coord.View) (out []cluster.NodeID) {
	self, ok := v.Member(v.Self)
	if !ok || self.Zone == "" {
		return nil
	}
	elsewhere := false
	for _, m := range v.Members { // in the order of their names
		switch {
		case m.Zone != self.Zone:
			elsewhere = elsewhere || m.Health != cluster.Left
		case m.Node < v.Self && m.Health == cluster.Alive && !sheds(m):
			out = append(out, m.Node)
		}
	}
	if !elsewhere {
		return nil
	}
	return out
}

// sheds reports whether a host has too much to do for those who follow something.
func sheds(m coord.MemberView) bool {
	return m.Load != nil && overload.Level(min(m.Load[wire.LoadLevel], uint32(overload.MaxLevel))).Sheds(overload.List)
}

// Relays knows which host of this one's zone asks elsewhere.
type Relays struct {
	view func() *coord.View

	mu     sync.Mutex
	silent map[cluster.NodeID]silence
}

// silence is of a host that did not answer lately.
type silence struct {
	until time.Time
	pause time.Duration
}

// NewRelays returns a Relays that has asked nobody.
func NewRelays(view func() *coord.View) *Relays {
	return &Relays{view: view, silent: map[cluster.NodeID]silence{}}
}

// First is the host that asks elsewhere for this one; none: this one asks by itself.
func (r *Relays) First() (cluster.NodeID, bool) {
	list := relaysOf(r.view())
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, n := range list {
		if now.After(r.silent[n].until) {
			return n, true
		}
	}
	return "", false
}

// ToHolder is First for what the holder says; none where it is in this zone too, or there is
// none.
func (r *Relays) ToHolder() (cluster.NodeID, bool) {
	if !r.far() {
		return "", false
	}
	return r.First()
}

// far reports whether there is a holder, in another zone than this host.
func (r *Relays) far() bool {
	v := r.view()
	self, _ := v.Member(v.Self)
	h, ok := v.Member(v.Lease.Holder)
	return ok && h.Zone != self.Zone
}

// Answered notes whether a host did what it was asked for; err nil: it did.
func (r *Relays) Answered(n cluster.NodeID, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		delete(r.silent, n)
		return
	}
	pause := min(max(2*r.silent[n].pause, pauseMin), pauseMax)
	r.silent[n] = silence{until: time.Now().Add(pause), pause: pause}
}
