package proxy

import (
	"context"
	"errors"
	"slices"
	"time"
)

// next returns the targets in the order in which to try them: those that are up,
// beginning with the one whose turn it is, then those that are down or unhealthy.
func (p *Proxy) next() []*target {
	if len(p.targets) == 1 {
		return p.targets
	}
	var up, down []*target
	for _, t := range p.targets {
		if t.down.Load() || t.unhealthy.Load() {
			down = append(down, t)
		} else {
			up = append(up, t)
		}
	}
	if len(up) == 0 {
		up, down = down, nil
	}
	first := (p.turn.Add(1) - 1) % uint32(len(up))
	return slices.Concat(up[first:], up[:first], down)
}

// try makes an attempt at each target until one can be connected to, and begins
// none after twice Options.Connect: not all may refuse as fast as a local one.
func (p *Proxy) try(ctx context.Context, targets []*target, attempt func(*target) error) error {
	begin := time.Now()
	for i, t := range targets {
		err := attempt(t)
		if _, failed := errors.AsType[*dialError](err); !failed || i == len(targets)-1 || ctx.Err() != nil || time.Since(begin) >= 2*p.o.Connect {
			return err
		}
	}
	return nil
}
