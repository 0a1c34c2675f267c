package onion

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/skein-project/skein/internal/durable"
	"github.com/skein-project/skein/internal/wait"
)

// Times of leaving the onion addresses.
const (
	// unpublishTime is what a publisher takes at most to publish without a host that
	// stops: two descriptors may lie 5 s apart. lastVisits is what clients have who
	// were introduced before.
	unpublishTime = 8 * time.Second
	lastVisits    = 3 * time.Second
)

// LeaveTime bounds Leave.
const LeaveTime = unpublishTime + lastVisits

// drainFile marks a host that is drained, also after a restart.
func (h *Host) drainFile() string { return filepath.Join(h.o.Dir, "drained") }

func (h *Host) readDrain() error {
	switch _, err := os.Stat(h.drainFile()); {
	case err == nil:
		h.site.drained.Store(true)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("mark of a drained onion: %w", err)
	}
	return nil
}

// Drain takes this host out of the descriptors, or undoes that. The wish is on
// the disk when it returns.
func (h *Host) Drain(drained bool) error {
	if drained {
		if err := os.MkdirAll(h.o.Dir, 0o700); err != nil {
			return fmt.Errorf("drain onion: %w", err)
		}
		if err := durable.WriteFile(h.drainFile(), nil, 0o600); err != nil {
			return fmt.Errorf("drain onion: %w", err)
		}
	} else if err := os.Remove(h.drainFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("undo drain of onion: %w", err)
	}
	h.site.drained.Store(drained)
	h.look()
	return nil
}

// Leave takes this host out of the descriptors before it stops, if others go on
// serving: first they are published without it, then clients that still hold an
// earlier one are sent away at its introduction points, while those that were
// introduced are served.
func (h *Host) Leave(ctx context.Context) error {
	st := h.status.Load()
	own, there := st.Hosts[h.o.Node]
	if !h.o.Tor.Own() || !there || !own.Placed || st.placed() == 1 {
		return nil
	}
	h.log.Info().Msg("leaving the onion addresses")
	h.site.leaving.Store(true)
	h.look()
	if err := h.awaitLeft(ctx, time.Now()); err != nil {
		return err
	}
	h.o.Tor.SendAway(h.services.addresses())
	return wait.For(ctx, lastVisits)
}

// awaitLeft waits until this host published each address without itself, or
// for as long as another one takes.
func (h *Host) awaitLeft(ctx context.Context, since time.Time) error {
	tick := time.NewTicker(turnEvery)
	defer tick.Stop()
	for time.Since(since) < unpublishTime {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		running, left := 0, 0
		for _, a := range h.status.Load().Addresses {
			if a.Publisher == nil {
				continue
			}
			running++
			if p := a.Publisher; p.Publishing && p.Published.After(since) && p.Points[h.o.Node] == 0 {
				left++
			}
		}
		if left > 0 && left == running {
			return nil
		}
	}
	return nil
}
