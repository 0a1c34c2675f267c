package share

import (
	"slices"
	"time"

	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/coord/wire"
)

const (
	// backendsEvery is how often a host repeats which of its backends fail while
	// one does; backendsGap keeps changes apart.
	backendsEvery = 30 * time.Second
	backendsGap   = time.Second
	// backendsLife is how long that counts at others: three repeats may be lost.
	backendsLife = 100 * time.Second
	// backendsCleared is how often a host says that none fails any more.
	backendsCleared = 3
)

// backendReport is what this host says of its backends.
type backendReport struct {
	msg     wire.BackendUnhealthy
	failing bool
	left    int           // messages to send, counted down while none fails
	next    time.Duration // when
	sentAt  time.Duration // 0: never
}

// ReportBackends replaces what this host says of its backends; it names at least
// one. A backend that fails is reported to the others at once and every 30 s
// while it does, and they forget it 100 s after the last report. Backends beyond
// the limits of wire.NewBackendUnhealthy are left out. It may be called from any
// goroutine.
func (s *Shares) ReportBackends(list []wire.Backend) {
	msg, ok := wire.NewBackendUnhealthy(list)
	if !ok {
		return
	}
	failing := slices.ContainsFunc(msg.Backends, func(b wire.Backend) bool { return !b.Healthy })
	s.o.Post(func() {
		r := &s.backends
		switch {
		case slices.Equal(r.msg.Backends, msg.Backends):
			return
		case failing || r.failing:
			r.left = backendsCleared
		}
		r.msg, r.failing = msg, failing
		s.o.Changed()
		now := s.o.Now()
		if r.next = now; r.sentAt > 0 {
			r.next = max(now, r.sentAt+backendsGap)
		}
		s.sendBackends(now)
	})
}

// sendBackends sends the report if it is due.
func (s *Shares) sendBackends(now time.Duration) {
	r := &s.backends
	if r.left == 0 || now < r.next {
		return
	}
	r.sentAt, r.next = now, now+backendsEvery
	if !r.failing {
		r.left--
	}
	for _, to := range s.o.Audience() {
		s.send(to, wire.TypeBackendUnhealthy, r.msg)
	}
}

// peerBackends is what another host says of its backends.
type peerBackends struct {
	list      []wire.Backend // never changed, only replaced
	at        time.Duration
	boot, seq uint64 // of the message
}

// OnBackends takes what a host says of its backends.
func (s *Shares) OnBackends(d transport.Delivery, b wire.BackendUnhealthy) {
	p := s.peers[d.Msg.Node]
	if p == nil {
		return // removed meanwhile
	}
	was := p.backends
	if d.Msg.Boot < was.boot || d.Msg.Boot == was.boot && d.Msg.Seq < was.seq {
		return // overtaken by a later one
	}
	p.backends = peerBackends{b.All(), s.o.Now(), d.Msg.Boot, d.Msg.Seq}
}

// Tidy repeats this host's report, and forgets those of hosts that stopped
// repeating theirs or were started again.
func (s *Shares) Tidy(now time.Duration) {
	s.sendBackends(now)
	for _, p := range s.peers {
		if b := &p.backends; b.list != nil && (now-b.at >= backendsLife || p.share.boot > b.boot) {
			b.list = nil
			s.o.Changed()
		}
	}
}
