package realtime

import (
	"context"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/load/live"
)

// loadEvery is how often the holder is asked what a load test counts, for all watchers of
// this host; the log changes more often.
const loadEvery = 900 * time.Millisecond

type loadRow struct {
	headless
	api.LoadRun
	Now *api.LoadNow `json:"now,omitempty"`
}

var loadKind = kind[loadRow]{
	key: func(r *loadRow) string { return string(r.ID) }, owner: func(r *loadRow) string { return r.Owner },
}

// counting follows one load test.
type counting struct {
	sum   live.Sum
	asked time.Time
	heard bool
	ended bool // all was told
}

// look asks for more, unless it did just now. A holder that does not answer is asked the next
// time.
func (c *counting) look(ctx context.Context, s Source, id event.LoadID) {
	if c.ended || time.Since(c.asked) < loadEvery {
		return
	}
	c.asked = time.Now()
	if x, err := s.LoadLive(ctx, id, c.sum.After(), 0); err == nil {
		c.ended = x.State == event.LoadEnded && x.Next == c.sum.After()
		c.sum.Add(x)
		c.heard = true
	}
}

// loadsReader reads all load tests, and how those get on that run.
func loadsReader(s Source) reader {
	running := map[event.LoadID]*counting{}
	return loadKind.many(func(ctx context.Context) ([]loadRow, error) {
		list, err := s.LoadRuns(ctx)
		if err != nil {
			return nil, err
		}
		before := running
		running = map[event.LoadID]*counting{}
		rows := make([]loadRow, 0, len(list.Runs))
		for _, r := range list.Runs {
			row := loadRow{LoadRun: r}
			if r.State == event.LoadStarted {
				c := before[r.ID]
				if c == nil {
					c = &counting{}
				}
				running[r.ID] = c
				if c.look(ctx, s, r.ID); c.heard {
					row.Now = new(live.Brief(c.sum.Now()))
				}
			}
			rows = append(rows, row)
		}
		return rows, nil
	})
}

// loadReader reads one load test with all that it counts, also behind its end.
func loadReader(s Source, id event.LoadID) reader {
	c := &counting{}
	return loadKind.many(func(ctx context.Context) ([]loadRow, error) {
		r, err := s.LoadRun(ctx, id)
		row := loadRow{LoadRun: r}
		if err == nil {
			if c.look(ctx, s, id); c.heard {
				row.Now = new(c.sum.Now())
			}
		}
		return known([]loadRow{row}, err)
	})
}
