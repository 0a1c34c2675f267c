package proxy

import (
	"context"
	"time"
)

// failuresToTell is how many looks in a row must fail before the target counts
// as unhealthy: one may be a restart.
const failuresToTell = 3

// watch looks at the target until the context ends.
func (p *Proxy) watch(ctx context.Context) {
	failures := 0
	for {
		conn, err := p.dial(ctx)
		switch {
		case ctx.Err() != nil:
			if err == nil {
				conn.Close()
			}
			return
		case err == nil:
			conn.Close()
			failures = 0
			if p.healthy.CompareAndSwap(false, true) {
				p.o.OnHealth(true, nil)
			}
		default:
			failures++
			if failures >= failuresToTell && p.healthy.CompareAndSwap(true, false) {
				p.o.OnHealth(false, err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(p.o.CheckEvery):
		}
	}
}
