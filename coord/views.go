package coord

import (
	"sync/atomic"
	"time"

	"github.com/skein-project/skein/coord/notify"
)

// views decides when a new view is due, publishes it, and then reports new
// members.
type views struct {
	make     func(now time.Duration) *View
	hosts    *hosts
	notifier *notify.Notifier
	latest   atomic.Pointer[View]

	dirty bool // the view is to be made anew
	// soft says that a heartbeat changed the view a little: in a large cluster
	// that waits, see pause.
	soft    bool
	members bool // OnMembers is to be called, after that
	at      time.Duration
}

// touch says that what a view shows may have changed.
func (v *views) touch() { v.dirty = true }

// touchSoft says that a heartbeat may have changed it a little.
func (v *views) touchSoft() { v.soft = true }

// touchMembers says that OnMembers has news as well.
func (v *views) touchMembers() { v.dirty, v.members = true, true }

// publish makes what the loop knows visible.
func (v *views) publish(now time.Duration) { v.latest.Store(v.make(now)) }

// due publishes what is to be seen now.
func (v *views) due(now time.Duration) {
	if v.dirty || (v.soft && now >= v.at+v.pause()) {
		v.dirty, v.soft, v.at = false, false, now
		v.publish(now)
	}
	if v.members {
		v.members = false
		v.tellMembers()
	}
}

// tellMembers has OnMembers called.
func (v *views) tellMembers() { v.notifier.SetMembers(v.hosts.members) }

// deadline is when a view that waits is due; ok is false if none waits.
func (v *views) deadline() (at time.Duration, ok bool) { return v.at + v.pause(), v.soft }

// pause is how long what a heartbeat changed may stay unseen: making a view
// costs as much as there are members, and so many send heartbeats.
func (v *views) pause() time.Duration {
	if len(v.hosts.members) <= 16 {
		return 0
	}
	return time.Duration(len(v.hosts.members)) * time.Millisecond
}
