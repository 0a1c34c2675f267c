package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"iter"
	"time"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state/canon"
)

// chunksAtOnce is how many results of chunks one statement writes.
const chunksAtOnce = 1000

// chunks are the results of chunks of one job, a column each, as the database takes them.
type chunks struct {
	chunk    []int32
	result   []string // JSON
	hash     [][]byte // SHA-256 of it
	worker   []string
	attempt  []int32
	seconds  []float64
	accepted []time.Time
}

func (c *chunks) add(at time.Time, a event.Accept) error {
	text, err := json.Marshal(a.Result)
	if err != nil {
		return err
	}
	hash := sha256.Sum256(text)
	c.chunk, c.result, c.hash = append(c.chunk, int32(a.Chunk)), append(c.result, string(text)), append(c.hash, hash[:]) //nolint:gosec // G115: below job.MaxChunks
	c.worker, c.attempt = append(c.worker, string(a.Worker)), append(c.attempt, int32(min(a.Attempt, 1<<30)))            //nolint:gosec // G115: bounded
	c.seconds, c.accepted = append(c.seconds, a.Seconds), append(c.accepted, at)
	return nil
}

// counted returns which events of a job hold the results that were counted: of two for one
// chunk the first, unless a later one settles a dispute.
func counted(events iter.Seq2[event.Event, error], id job.ID, spec job.Spec) (map[int]canon.Key, error) {
	type best struct {
		at      canon.Key
		settles bool
	}
	found := map[int]best{}
	for e, err := range events {
		if err != nil {
			return nil, err
		}
		for _, a := range e.Accepts(id) {
			if !fits(spec, a) {
				continue
			}
			at := canon.KeyOf(&e)
			if b, ok := found[a.Chunk]; !ok || a.Settles && !b.settles || a.Settles == b.settles && at.Less(b.at) {
				found[a.Chunk] = best{at, a.Settles}
			}
		}
	}
	out := make(map[int]canon.Key, len(found))
	for c, b := range found {
		out[c] = b.at
	}
	return out, nil
}

// fits reports whether a result can be of a job.
func fits(spec job.Spec, a event.Accept) bool {
	if a.Chunk < 0 || a.Chunk >= spec.Chunks() {
		return false
	}
	_, n := spec.ChunkRange(a.Chunk)
	return a.Result.Validate(n) == nil
}

// putChunks writes the results of a job's chunks that the log still has. How large a job
// may be, no more than chunksAtOnce are in memory.
func (s session) putChunks(ctx context.Context, id job.ID, spec job.Spec, accepted int) error {
	events := s.ends.about(ctx, id)
	winners, err := counted(events, id, spec)
	if err != nil {
		return err
	}
	if lacking := accepted - len(winners); lacking > 0 {
		s.log.Warn().Str("job", string(id)).Int("chunks", lacking).Msg("the log has the results of some chunks no more: the table does not get them")
	}
	var some chunks
	flush := func() error {
		if len(some.chunk) == 0 {
			return nil
		}
		err := within(ctx, func(ctx context.Context) error { return s.writeChunks(ctx, id, some) })
		some = chunks{}
		return err
	}
	for e, err := range events {
		if err != nil {
			return err
		}
		for _, a := range e.Accepts(id) {
			if at, ok := winners[a.Chunk]; !ok || at != canon.KeyOf(&e) || !fits(spec, a) {
				continue
			}
			delete(winners, a.Chunk) // one event may name a chunk twice: the first counts
			if err := some.add(e.HLC.Time(), a); err != nil {
				return err
			}
			if len(some.chunk) == chunksAtOnce {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	return flush()
}

// writeChunks writes results. Those that it did not, which are there already or which a
// stale holder may not write, it reads back.
func (s session) writeChunks(ctx context.Context, id job.ID, c chunks) error {
	n, err := s.db.putChunks(ctx, s.term, id, c)
	if why, bad := refusedForGood(err); bad {
		s.log.Error().Str("job", string(id)).Int("chunks", len(c.chunk)).Str("reason", why).Msg("the database refuses results of chunks")
		return nil
	}
	if err != nil || n == len(c.chunk) {
		return err
	}
	missing, differ, err := s.db.compareChunks(ctx, id, c)
	switch {
	case err != nil:
		return err
	case missing > 0:
		return errStale
	case differ > 0:
		s.metrics.differ.Add(float64(differ))
		s.log.Error().Str("job", string(id)).Int("chunks", differ).Msg("the table has other results of these chunks than the log: what it has stays, compare them")
	}
	return nil
}
