package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/skein-project/skein/cluster/job"
)

// sink writes the ends of jobs that the table does not have.
func (s session) sink(ctx context.Context) error {
	open := s.unsunk()
	s.metrics.waiting.Set(float64(len(open)))
	if len(open) == 0 {
		return nil
	}
	if err := within(ctx, s.o.Settle); err != nil {
		return err
	}
	for len(open) > 0 {
		some := open[:min(len(open), atOnce)]
		open = open[len(some):]
		if err := s.sinkSome(ctx, some); err != nil {
			return err
		}
		s.metrics.waiting.Set(float64(len(open)))
	}
	return within(ctx, func(ctx context.Context) error { return s.db.current(ctx, s.term, s.o.Self) })
}

// unsunk lists ended jobs that the table is not known to have, and forgets what the log
// has forgotten.
func (s *Service) unsunk() []job.ID {
	all, over := s.ends.known()
	s.mu.Lock()
	defer s.mu.Unlock()
	sunk := make(map[job.ID]bool, len(s.sunk))
	for _, id := range all {
		if s.sunk[id] {
			sunk[id] = true
		}
	}
	s.sunk = sunk
	return slices.DeleteFunc(over, func(id job.ID) bool { return sunk[id] })
}

// sinkSome writes some ends, and reads them back.
func (s session) sinkSome(ctx context.Context, ids []job.ID) error {
	var missing map[job.ID]bool
	err := within(ctx, func(ctx context.Context) (err error) {
		missing, err = s.db.missing(ctx, ids)
		return err
	})
	if err != nil {
		return err
	}
	list := s.ends.of(ids)
	var write []ended
	for _, e := range list {
		if missing[e.job] {
			write = append(write, e)
		}
	}
	if s.o.Chunks {
		for _, e := range write {
			if err := s.putChunks(ctx, e.job, e.of, e.accepted); err != nil {
				return fmt.Errorf("chunks of job %s: %w", e.job, err)
			}
		}
	}
	return within(ctx, func(ctx context.Context) error { return s.sinkEnds(ctx, ids, list, write) })
}

// sinkEnds writes how some jobs ended that the table does not have, and reads all back.
func (s session) sinkEnds(ctx context.Context, ids []job.ID, list, write []ended) error {
	refused, err := s.put(ctx, write)
	if err != nil {
		return err
	}
	stored, err := s.db.stored(ctx, ids)
	if err != nil {
		return err
	}
	for _, e := range list {
		hash, ok := stored[e.job]
		switch {
		case ok && hash != e.hash():
			s.metrics.differ.Inc()
			s.log.Error().Str("job", string(e.job)).Msg("the table has another result of this job than the log: what it has stays, compare them")
		case !ok && !refused[e.job]:
			if err := s.db.current(ctx, s.term, s.o.Self); err != nil {
				return err
			}
			s.log.Warn().Str("job", string(e.job)).Msg("the row of this owner and key was refused as another job, and keeps that")
		}
		s.mu.Lock()
		s.sunk[e.job] = true
		s.mu.Unlock()
	}
	s.metrics.sunk.Add(float64(len(list)))
	return nil
}

// put writes ends, one by one if the database refuses some of them for good.
func (s session) put(ctx context.Context, list []ended) (refused map[job.ID]bool, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	err = s.db.put(ctx, s.term, list)
	why, bad := refusedForGood(err)
	switch {
	case !bad:
		return nil, err
	case len(list) == 1:
		s.log.Error().Str("job", string(list[0].job)).Str("reason", why).Msg("the database refuses how this job ended")
		return map[job.ID]bool{list[0].job: true}, nil
	}
	refused = make(map[job.ID]bool)
	for i := range list {
		one, err := s.put(ctx, list[i:i+1])
		if err != nil {
			return nil, err
		}
		for id := range one {
			refused[id] = true
		}
	}
	return refused, nil
}
