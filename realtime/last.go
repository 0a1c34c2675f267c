package realtime

import (
	"context"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
)

// Last returns the last n events that are about something, that match and that are not
// before since, and where the log ends behind them. It looks back from now, further and
// further, so that what is asked for is found without reading all of the log.
func Last(
	ctx context.Context, log Log, n int, since, now time.Time, about event.Subject, match func(*event.Event) bool,
) ([]event.Event, api.Cursor, error) {
	const first, further, end = 10 * time.Minute, 8, 100 * 365 * 24 * time.Hour
	for back := time.Duration(first); ; back *= further {
		from := now.Add(-back)
		all := !from.After(since) || back > end
		if all {
			from = since
		}
		at := log.Oldest().Clone()
		var list []event.Event
		for e, err := range log.Events(ctx, at, from, about) {
			if err != nil {
				return nil, nil, err
			}
			if e.HLC.Time().Before(from) || match != nil && !match(&e) {
				continue
			}
			if list = append(list, e); len(list) >= 2*n {
				list = append(list[:0], list[n:]...)
			}
		}
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		if all || len(list) >= n {
			return list[max(0, len(list)-n):], at, nil
		}
	}
}
