package proxy

import (
	"context"
	"sync"

	"github.com/skein-project/skein/internal/wait"
)

// failuresToTell is how many looks in a row must fail before a target counts
// as unhealthy: one may be a restart.
const failuresToTell = 3

// health is what the looks at a target said; Proxy.watch owns it.
type health struct {
	failing  bool
	failures int // in a row
}

// judge takes the outcome of a look and reports whether the health changed.
func (h *health) judge(err error) (changed bool) {
	was := h.failing
	if err == nil {
		h.failing, h.failures = false, 0
		return was
	}
	h.failures++
	h.failing = h.failures >= failuresToTell
	return h.failing != was
}

// look is the outcome of one look at a target.
type look struct {
	target *target
	err    error // nil: it took a connection
}

// watch looks at the targets until the context ends, at each by itself, and
// tells what changes.
func (p *Proxy) watch(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	looks := make(chan look) // never closed; who looks waits until it is taken
	for _, t := range p.targets {
		wg.Go(func() { t.watch(ctx, looks) })
	}
	for {
		select {
		case <-ctx.Done():
			return
		case l := <-looks:
			if h := &l.target.health; h.judge(l.err) {
				p.o.OnHealth(l.target.name, !h.failing, l.err)
			}
		}
	}
}

// watch looks at one target until the context ends.
func (t *target) watch(ctx context.Context, looks chan<- look) {
	for {
		conn, err := t.dial(ctx)
		if err == nil {
			conn.Close()
		}
		if ctx.Err() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case looks <- look{t, err}:
		}
		if wait.For(ctx, t.o.CheckEvery) != nil {
			return
		}
	}
}
