package pathmtu

import "time"

// Path is what is known of full packets to and from one host. The zero value is a
// path that was not probed.
type Path struct {
	mtu    int           // that is being tried, 0: none yet
	proven int           // that arrived last
	tries  int           // unanswered
	sentAt time.Duration // last try
	next   time.Duration // not before
	got    arrival       // the last from that host
}

// arrival is a full packet that came.
type arrival struct {
	size uint32
	at   time.Duration
}

// Again has the path probed by the next Look: it may be another one.
func (p *Path) Again() { p.next = 0 }

// Proven is the largest MTU of the mesh at which full packets were seen to
// arrive, 0 if none.
func (p *Path) Proven() int { return p.proven }

// Echo is the size of the full packet that came lately from the host, in bytes, 0
// if none did. A heartbeat to it says so.
func (p *Path) Echo(now time.Duration) uint32 {
	if p.got.size != 0 && now-p.got.at < echoFor {
		return p.got.size
	}
	return 0
}
