package pressure

import (
	"context"
	"sync"
	"time"

	"github.com/skein-project/skein/internal/wait"
)

// Times of the pings.
const (
	pingEvery = 125 * time.Millisecond
	// pingTime bounds one: a loop that lets it wait longer is stuck.
	pingTime = 2 * time.Second
)

// Ping waits until a loop, or whatever has a queue, got to it, or ctx ends. Whether it
// succeeded does not matter, only how long it took.
type Ping func(ctx context.Context)

// Loop is a part of the daemon that others wait for.
type Loop struct {
	Name string
	Ping Ping
	// Control loops are those of the lease and of who is alive.
	Control bool
}

// probe measures how long a loop lets a ping wait.
type probe struct {
	Loop
	now func() time.Duration

	mu    sync.Mutex
	since time.Duration // when the first ping began that did not get through yet
	away  bool          // there is one
	least time.Duration // of those that came back since the last look
	any   bool          // one came back
}

// run pings until ctx ends.
func (p *probe) run(ctx context.Context) {
	tick := wait.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			tick.Next()
		}
		p.once(ctx)
	}
}

// once pings. A ping whose time is up did not get through: the next waits in its place.
func (p *probe) once(ctx context.Context) {
	began := p.now()
	p.mu.Lock()
	if !p.away {
		p.since, p.away = began, true
	}
	p.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	p.Ping(limited)
	if limited.Err() != nil {
		return
	}
	took := p.now() - began
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = false
	if !p.any || took < p.least {
		p.least, p.any = took, true
	}
}

// take is the least delay since the last call: if no ping came back, how long the first
// that did not has been waiting.
func (p *probe) take() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := time.Duration(0)
	switch {
	case p.any:
		d = p.least
	case p.away:
		d = p.now() - p.since
	}
	p.least, p.any = 0, false
	return max(d, 0)
}
