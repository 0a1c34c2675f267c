package logbench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/past"
	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/bench/testbed"
	"github.com/skein-project/skein/cluster/event"
)

// Replay asks what the log said at a moment, as `GET /v1/replay` does: the first time
// since the daemon began, at its end, and then at moments all over it, as somebody does
// who drags a slider. None of its jobs has ended, so that the state keeps every chunk.
func Replay(ctx context.Context, s *suite.Suite) (err error) {
	o, err := testbed.LogOptions(filepath.Join(s.Dir, "replay"))
	if err != nil {
		return err
	}
	o.SnapshotEvents = -1 // each first one begins at the beginning
	n := s.Size.Replayed
	if err := fillWith(ctx, o, n, history{open: true}); err != nil {
		return err
	}
	l, stop, err := testbed.RunLog(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	var first, last time.Time
	for e, err := range l.Between(event.Cursor{}, l.Heads()) {
		if err != nil {
			return err
		}
		if last = e.HLC.Time(); first.IsZero() {
			first = last
		}
	}
	cold := suite.Series{
		Name: fmt.Sprintf("replay of %d events, the first", n), Unit: "ms", Target: suite.Want("ours", "<=", 1000), Digest: suite.P99,
	}
	warm := suite.Series{
		Name: fmt.Sprintf("replay of %d events, a further moment, p99", n), Unit: "ms", Target: suite.Want("ours", "<=", 150), Digest: suite.P99,
	}
	ask := func(p *past.Past, at time.Time, into *suite.Series) error {
		began := time.Now()
		r, err := p.Replay(ctx, api.ReplayAt{Time: at})
		into.Ours = append(into.Ours, suite.Ms(time.Since(began)))
		if err == nil && r.Malformed > 0 {
			err = fmt.Errorf("%d of the events are not understood", r.Malformed)
		}
		if err == nil && at.Equal(last) && r.Events != uint64(n) {
			err = fmt.Errorf("a replay of all has %d events of %d", r.Events, n)
		}
		return err
	}
	const moments = 20 // of a round
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range s.Size.Rounds {
		s.Progress("replay, round %d of %d", i+1, s.Size.Rounds)
		p := past.New(o.Self, l, l.Rewind().At)
		if err := ask(p, last, &cold); err != nil {
			return err
		}
		for range moments {
			if err := ask(p, first.Add(time.Duration(rnd.Int64N(int64(last.Sub(first))+1))), &warm); err != nil {
				return err
			}
		}
	}
	s.Add(cold)
	s.Add(warm)
	return nil
}
