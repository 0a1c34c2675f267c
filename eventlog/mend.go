package eventlog

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/record"
)

// Repairing returns the chains of which something is still to be fetched after
// a Repair.
func (l *Log) Repairing() []Repairing {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Clone(l.repairs)
}

// Mend fetches from peer what a Repair found missing, and takes from the files
// that it set aside what fits behind. It returns what is still missing. The own
// chain, if it was damaged, is complete when its new incarnation has begun too.
func (l *Log) Mend(ctx context.Context, peer cluster.NodeID) ([]Repairing, error) {
	l.salvage(ctx)
	var err error
	if peer != l.o.Self { // whose files are all there is
		err = l.Sync(ctx, peer)
		l.salvage(ctx)
	}
	left := slices.DeleteFunc(l.Repairing(), func(r Repairing) bool {
		return l.Head(r.Source).Seq >= r.Known && (!r.Own || l.Source() != r.Source && l.Head(l.Source()).Seq > 0)
	})
	if len(left) < len(l.Repairing()) {
		if err := saveRepairs(l.o.Dir, left); err != nil {
			return l.Repairing(), err
		}
		l.mu.Lock()
		l.repairs = left
		l.mu.Unlock()
	}
	return left, err
}

// salvage offers the readable groups of the files set aside to the log, like
// those of a peer: the source's signature decides.
func (l *Log) salvage(ctx context.Context) {
	for _, r := range l.Repairing() {
		names, err := os.ReadDir(r.Aside)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				l.log.Warn().Err(err).Str("source", r.Source.String()).Msg("files set aside cannot be read")
			}
			continue
		}
		for _, e := range names {
			b, err := os.ReadFile(filepath.Join(r.Aside, e.Name()))
			if err != nil {
				continue // the next round may be luckier
			}
			for run := range groupsIn(b) {
				if ru, err := decodeRun(run); err == nil && ru.head.Source == r.Source && ru.head.Seq > l.Head(r.Source).Seq {
					_, _ = l.receive(ctx, run) // what does not fit is not taken
				}
			}
		}
	}
}

// groupsIn yields the runs of readable frames in b that end with a head.
func groupsIn(b []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		start := -1 // of the events of this group
		for i := 0; i < len(b); {
			fr, n, err := record.ParseFrame(b[i:])
			switch {
			case err != nil:
				start = -1
				i++
				continue
			case fr.Type == record.TypeEvent && start < 0:
				start = i
			case fr.Type == record.TypeHead && start >= 0:
				if !yield(b[start : i+n]) {
					return
				}
				start = -1
			case fr.Type != record.TypeEvent:
				start = -1
			}
			i += n
		}
	}
}
