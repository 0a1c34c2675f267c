package proxy

import (
	"context"
	"sync"

	"github.com/skein-project/skein/internal/wait"
)

// maxFailures is how many checks in a row must fail before a target counts as
// unhealthy: one may be a restart.
const maxFailures = 3

// health is what the checks of a target have shown; Proxy.watch owns it.
type health struct {
	failing  bool
	failures int // in a row
}

// judge takes the outcome of a check and reports whether the health changed.
func (h *health) judge(err error) (changed bool) {
	was := h.failing
	if err == nil {
		h.failing, h.failures = false, 0
		return was
	}
	h.failures++
	h.failing = h.failures >= maxFailures
	return h.failing != was
}

// outcome is that of one check of a target.
type outcome struct {
	target *target
	err    error // nil: it took a connection
}

// watch checks the targets until the context ends, each in a goroutine of its own,
// and reports what changes.
func (p *Proxy) watch(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	outcomes := make(chan outcome) // never closed; who checks waits until it is taken
	for _, t := range p.targets {
		wg.Go(func() { t.watch(ctx, outcomes) })
	}
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-outcomes:
			if h := &c.target.health; h.judge(c.err) {
				p.o.OnHealth(c.target.name, !h.failing, c.err)
			}
		}
	}
}

// watch checks one target until the context ends.
func (t *target) watch(ctx context.Context, outcomes chan<- outcome) {
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
		case outcomes <- outcome{t, err}:
		}
		if wait.For(ctx, t.o.CheckEvery) != nil {
			return
		}
	}
}
