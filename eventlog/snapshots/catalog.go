package snapshots

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/snapshot"
)

const (
	// maxNoted is how many snapshots of the log wait to be made here. Full:
	// the one with the smallest cut is forgotten, the later hold more.
	maxNoted = 4
	// maxRefused is how many ids are remembered that this host found wrong.
	// Full: all are forgotten, and judged again if they come again.
	maxRefused = 64
)

// catalog knows which snapshots there are: on this disk, and in the log.
type catalog struct {
	cluster string
	m       *metrics
	log     zerolog.Logger
	wake    chan struct{} // capacity 1; a token means "look"; full: drop, one is enough

	mu       sync.Mutex
	kept     []*event.SnapshotTaken  // on disk and sound, the smallest cut first
	noted    []*event.SnapshotTaken  // in the log, not made here yet, the smallest cut first
	refused  map[cluster.Hash]string // why a snapshot of the log is wrong here
	grown    int64                   // bytes in the log beyond the last kept snapshot, about
	trouble  string                  // what went wrong last; empty: nothing since
	mismatch string                  // why the last mismatch alarms; for ever
}

// poke wakes the keeper.
func (c *catalog) poke() {
	select {
	case c.wake <- struct{}{}:
	default: // a token is already there
	}
}

// note looks for snapshots among durable events, and keeps those that this
// host has yet to make. It does not block.
func (c *catalog) note(events []event.Event) {
	for i := range events {
		e := &events[i]
		if e.Kind != event.KindSnapshot {
			continue
		}
		t, err := snapshot.Decode(c.cluster, e.Body)
		if err != nil {
			c.refuse(cluster.Hash{}, fmt.Sprintf("%s, event %d: %v", e.Source, e.Seq, err))
			continue
		}
		c.mu.Lock()
		c.noteLocked(t)
		c.mu.Unlock()
		c.poke()
	}
}

func (c *catalog) noteLocked(t *event.SnapshotTaken) {
	if _, ok := c.refused[t.ID]; ok || c.outdatedLocked(t) {
		return
	}
	if slices.ContainsFunc(c.noted, func(o *event.SnapshotTaken) bool { return o.ID == t.ID }) {
		return
	}
	c.noted = append(c.noted, t)
	slices.SortFunc(c.noted, func(a, b *event.SnapshotTaken) int {
		return cmp.Compare(snapshot.Events(a), snapshot.Events(b))
	})
	if len(c.noted) > maxNoted {
		c.noted = slices.Delete(c.noted, 0, 1)
	}
}

// outdatedLocked reports whether t brings nothing beyond what is kept.
func (c *catalog) outdatedLocked(t *event.SnapshotTaken) bool {
	n := len(c.kept)
	return n > 0 && !snapshot.Covers(t, c.kept[n-1]) || n > 0 && t.ID == c.kept[n-1].ID
}

// toMake returns the snapshots of the log that are to be made here, those with
// the largest cut first.
func (c *catalog) toMake() []*event.SnapshotTaken {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := slices.Clone(c.noted)
	slices.Reverse(out)
	return out
}

// outdated reports whether t brings nothing beyond what is kept, and then
// forgets it.
func (c *catalog) outdated(t *event.SnapshotTaken) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.outdatedLocked(t) {
		return false
	}
	c.noted = slices.DeleteFunc(c.noted, func(o *event.SnapshotTaken) bool { return o == t })
	return true
}

// refuse remembers that a snapshot in the log is wrong here. Nothing is ever
// dropped for it.
func (c *catalog) refuse(id cluster.Hash, why string) {
	c.m.done.WithLabelValues("make", "refused").Inc()
	c.log.Error().Str("snapshot", id.String()).Str("why", why).Msg("snapshot in the log refused")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trouble = why
	if id.IsZero() {
		return
	}
	if len(c.refused) >= maxRefused {
		clear(c.refused)
	}
	c.refused[id] = why
	c.noted = slices.DeleteFunc(c.noted, func(t *event.SnapshotTaken) bool { return t.ID == id })
}

// alarm says that two hosts fold the same events to different states.
func (c *catalog) alarm(id cluster.Hash, why string) {
	c.m.mismatches.Inc()
	c.mu.Lock()
	c.mismatch = why
	c.mu.Unlock()
	c.refuse(id, why)
}

// failed notes what went wrong, and reports whether that is news.
func (c *catalog) failed(what string, err error) (news bool) {
	c.m.done.WithLabelValues(what, "failed").Inc()
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.trouble
	c.trouble = fmt.Sprintf("%s: %v", what, err)
	return c.trouble != old
}

// all returns the kept snapshots, the smallest cut first.
func (c *catalog) all() []*event.SnapshotTaken {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.kept)
}

// newest returns the snapshot that the log goes on from, nil for none.
func (c *catalog) newest() *event.SnapshotTaken {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.kept); n > 0 {
		return c.kept[n-1]
	}
	return nil
}

// find returns a kept snapshot.
func (c *catalog) find(id cluster.Hash) *event.SnapshotTaken {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.kept {
		if t.ID == id {
			return t
		}
	}
	return nil
}

// head returns where the newest snapshot leaves a chain.
func (c *catalog) head(src event.SourceID) event.Head {
	if t := c.newest(); t != nil {
		return snapshot.HeadOf(t, src)
	}
	return event.Head{Source: src}
}

// grew notes that the log got longer.
func (c *catalog) grew(n int64) {
	c.mu.Lock()
	c.grown += n
	c.mu.Unlock()
}

// keep notes that the log goes on from t, which is on disk, and forgets the
// snapshots that are too old to be of use.
func (c *catalog) keep(t *event.SnapshotTaken) {
	c.mu.Lock()
	c.kept = append(slices.DeleteFunc(slices.Clone(c.kept), func(o *event.SnapshotTaken) bool { return o.ID == t.ID }), t)
	if n := len(c.kept) - keepSnapshots; n > 0 {
		c.kept = append([]*event.SnapshotTaken(nil), c.kept[n:]...)
	}
	c.noted = slices.DeleteFunc(c.noted, c.outdatedLocked)
	c.grown, c.trouble = 0, ""
	c.mu.Unlock()
	c.show()
}

// show sets the metrics of the newest snapshot.
func (c *catalog) show() {
	t := c.newest()
	if t == nil {
		return
	}
	c.m.events.Set(float64(snapshot.Events(t)))
	c.m.clock.Set(float64(t.Clock.Time().UnixMilli()) / 1000)
	c.m.bytes.Set(float64(t.Size))
	c.m.signers.Set(float64(len(t.Signatures)))
}
