package scaleout

import (
	"context"
	"fmt"
	"time"

	"github.com/skein-project/skein/internal/demo"
	"github.com/skein-project/skein/internal/wait"
)

// far waits until a share of the job counts.
func (w *show) far(ctx context.Context, share float64, what string) (count, error) {
	return w.follow(ctx, what, func(c count) bool { return float64(c.all) >= share*float64(c.total) })
}

// goOn waits until outside workers have done some more than before.
func (w *show) goOn(ctx context.Context, before count, what string) (count, error) {
	return w.follow(ctx, what, func(c count) bool { return c.outside > before.outside })
}

// loseGateway kills a gateway that does not hold the lease, and starts it again when outside
// workers have gone on without it.
func (w *show) loseGateway(ctx context.Context) error {
	if _, err := w.far(ctx, gatewayAt, "a gateway is killed"); err != nil {
		return err
	}
	holder, err := w.s.Holder(ctx)
	if err != nil {
		return err
	}
	var lost demo.Host
	for _, h := range w.s.Hosts() {
		if w.gateways[h.Name()] != "" && h.Name() != holder.Name() {
			lost = h
		}
	}
	at := time.Now()
	if err := lost.Kill(); err != nil {
		return err
	}
	w.s.Say("SIGKILL to the gateway %s; connections stay in Centrifugo, which asks the other gateway", lost.Name())
	before, err := w.count(ctx)
	if err != nil {
		return err
	}
	if _, err := w.goOn(ctx, before, "outside workers go on at the other gateway"); err != nil {
		return err
	}
	w.result.Gateway = time.Since(at)
	if err := w.connected(ctx, "all outside workers are connected"); err != nil {
		return err
	}
	w.s.Say("results of outside workers count %.1f s after the kill; all %d are connected", w.result.Gateway.Seconds(), w.o.Workers)
	return w.again(ctx, lost)
}

// again starts a host that was killed.
func (w *show) again(ctx context.Context, h demo.Host) error {
	if err := h.Start(); err != nil {
		return err
	}
	addr := w.gateways[h.Name()]
	if addr == "" {
		w.s.Say("%s was started again", h.Name())
		return nil
	}
	if err := w.until(ctx, h.Name()+" is a gateway again", func() error { return ready(ctx, addr) }); err != nil {
		return err
	}
	w.s.Say("%s was started again, and is a gateway", h.Name())
	return nil
}

// loseRedis kills Redis, and starts it again after a while.
func (w *show) loseRedis(ctx context.Context) error {
	before, err := w.far(ctx, redisAt, "Redis is killed")
	if err != nil {
		return err
	}
	at := time.Now()
	if err := w.redis.Kill(); err != nil {
		return fmt.Errorf("kill Redis: %w", err)
	}
	w.s.Say("SIGKILL to Redis: outside workers keep what they have done, hosts go on")
	if err := wait.For(ctx, w.o.Down); err != nil {
		return err
	}
	meanwhile, err := w.count(ctx)
	if err != nil {
		return err
	}
	if err := w.redis.Start(ctx); err != nil {
		return err
	}
	started := time.Now()
	w.result.Down = started.Sub(at)
	w.s.Say("Redis was started again after %.1f s; the hosts did %d chunks meanwhile", w.result.Down.Seconds(), meanwhile.hosts()-before.hosts())
	if _, err := w.goOn(ctx, meanwhile, "outside workers count again"); err != nil {
		return err
	}
	w.result.Redis = time.Since(started)
	w.s.Say("results of outside workers count again %.1f s after that", w.result.Redis.Seconds())
	return nil
}

// loseHolder kills whoever holds the lease.
func (w *show) loseHolder(ctx context.Context) error {
	now, err := w.far(ctx, holderAt, "the holder is killed")
	if err != nil {
		return err
	}
	if share := float64(now.all) / float64(now.total); share > holderEnd {
		return w.tooShort("the next holder gives out a chunk", share)
	}
	was, is, gap, err := w.s.KillHolder(ctx)
	if err != nil {
		return err
	}
	w.result.Holder = gap
	w.s.Say("%s holds the lease and gave out its first chunk %.1f s after the kill", is.Name(), gap.Seconds())
	if now, err = w.count(ctx); err != nil {
		return err
	}
	if _, err := w.goOn(ctx, now, "outside workers work for the new holder"); err != nil {
		return err
	}
	return w.again(ctx, was)
}
