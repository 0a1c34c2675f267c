package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/skein-project/skein/internal/durable"
)

// Times of leaving the onion addresses.
const (
	// unpublishTime is what a publisher takes at most to publish without a host that
	// stops: two descriptors may lie 5 s apart. lastVisits is what clients have who
	// were introduced before.
	unpublishTime = 8 * time.Second
	lastVisits    = 3 * time.Second
)

// drainFile marks a host that is drained, also after a restart.
func (o *onions) drainFile() string { return filepath.Join(o.dir, "drained") }

// drain takes this host out of the descriptors, or undoes that. The wish is on
// the disk when it returns.
func (o *onions) drain(drained bool) error {
	if drained {
		if err := os.MkdirAll(o.dir, 0o700); err != nil {
			return fmt.Errorf("drain onion: %w", err)
		}
		if err := durable.WriteFile(o.drainFile(), nil, 0o600); err != nil {
			return fmt.Errorf("drain onion: %w", err)
		}
	} else if err := os.Remove(o.drainFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("undo drain of onion: %w", err)
	}
	o.drained.Store(drained)
	o.look()
	return nil
}

// leave takes this host out of the descriptors before it stops, if others serve
// on: first they are published without it, then clients that still hold an
// earlier one are sent away at its introduction points, while those that were
// introduced are served.
func (o *onions) leave(ctx context.Context) error {
	st := o.status.Load()
	if !o.tor.tor.Own() || !st.serving[o.n.id.Node] || len(st.serving) == 1 {
		return nil
	}
	o.log.Info().Msg("leaving the onion addresses")
	o.leaving.Store(true)
	o.look()
	if err := o.awaitLeft(ctx, time.Now()); err != nil {
		return err
	}
	o.tor.quiet <- o.instanceAddresses() // has room: a daemon stops once
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(lastVisits):
		return nil
	}
}

// awaitLeft waits until this host published each address without itself, or
// for as long as another one takes.
func (o *onions) awaitLeft(ctx context.Context, since time.Time) error {
	tick := time.NewTicker(onionEvery)
	defer tick.Stop()
	for time.Since(since) < unpublishTime {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		pubs := o.status.Load().pubs
		left := 0
		for _, p := range pubs {
			if p.Publishing && p.Published.After(since) && p.Points[o.n.id.Node] == 0 {
				left++
			}
		}
		if left > 0 && left == len(pubs) {
			return nil
		}
	}
	return nil
}
