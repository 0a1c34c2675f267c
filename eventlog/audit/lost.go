package audit

import (
	"path/filepath"

	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/internal/durable"
)

// Lost returns a *segment.CorruptError if nothing is left of a log that was opened
// once: no chain, no snapshot, no list of repairs, and no watermark, which is there
// from the first time on.
func Lost(dir string) error {
	for _, pattern := range [...]string{"*.*/*.seg", segment.SnapshotDir + "/*", "watermark.*", durable.Repairs.Name} {
		if found, err := filepath.Glob(filepath.Join(dir, pattern)); err != nil || len(found) > 0 {
			return err
		}
	}
	return &segment.CorruptError{
		Segment: dir, Own: true, Reason: "missing: this host had an event log, and nothing of it is left here",
	}
}

// renew notes, if all of the log is lost, that the own chain goes on as a new
// incarnation. Of those before nothing is known, so the new one is higher than any
// that this host may have had: by the time of day.
func (o RepairOptions) renew() (r Repairing, lost bool) {
	if !o.Used || Lost(o.Dir) == nil {
		return r, false
	}
	r = Repairing{Own: true, Segment: o.Dir, Reason: "the event log was gone", Peer: o.Peer}
	r.Source.Node, r.Source.Inc = o.Self, uint64(max(o.Now.Unix(), 1))
	return r, true
}
