package tor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/publisher/descriptor"
)

// When a consensus brings a new shared random value, tor gives up the older of a
// service's two descriptors and closes the circuits to its introduction points,
// within a second. A client whose introduction is on its way down one of them
// then waits for half a minute. So the points are made to close them before, as
// in Quiesce.

// span is what a consensus says of its time.
type span struct{ from, until time.Time }

const consensusTime = "2006-01-02 15:04:05"

func (r *rotation) span(ctx context.Context) (s span, err error) {
	for _, x := range []struct {
		at  *time.Time
		key string
	}{{&s.from, "consensus/valid-after"}, {&s.until, "consensus/fresh-until"}} {
		text, err := r.tor.ask(ctx, commandTime, x.key)
		if err != nil {
			return span{}, err
		}
		if *x.at, err = time.Parse(consensusTime, text); err != nil {
			return span{}, fmt.Errorf("%w: %s of the consensus: %w", ErrProtocol, x.key, err)
		}
	}
	return s, nil
}

// values is a number that rises with each shared random value; 0: not known.
func (s span) values() int64 {
	if every := int64(24 * s.until.Sub(s.from) / time.Second); every > 0 {
		return s.from.Unix() / every
	}
	return 0
}

// rotation follows the consensus for one service.
type rotation struct {
	tor    *Tor
	values int64 // of the last consensus; 0: none was read
}

// consensus is told that there may be a new one; s is what the service had under
// the one before.
func (r *rotation) consensus(ctx context.Context, s Snapshot) error {
	now, err := r.span(ctx)
	if err != nil {
		return err
	}
	before := r.values
	r.values = max(before, now.values())
	if before == 0 || r.values == before || s.Descriptor == "" {
		return nil
	}
	points, err := r.points(ctx, s, now)
	if err != nil {
		return err
	}
	cl := newClosing(r.tor, s.Address)
	circuits, err := cl.intros(ctx)
	if err != nil {
		return err
	}
	return cl.close(ctx, ofPoints(circuits, points))
}

// ofPoints are the circuits to a descriptor's points. Where the next descriptor
// has a point at the same relay, its circuit is the later one.
func ofPoints(circuits []introCircuit, points map[string]bool) []introCircuit {
	slices.SortFunc(circuits, func(a, b introCircuit) int {
		return cmp.Or(cmp.Compare(len(a.id), len(b.id)), cmp.Compare(a.id, b.id)) // numbers
	})
	var out []introCircuit
	for _, c := range circuits {
		if c.established && points[c.Relay] && !slices.ContainsFunc(out, func(o introCircuit) bool { return o.Relay == c.Relay }) {
			out = append(out, c)
		}
	}
	return out
}

// points are the introduction points of a service's descriptor, by relay.
func (r *rotation) points(ctx context.Context, s Snapshot, now span) (map[string]bool, error) {
	a, err := descriptor.ParseAddress(s.Address)
	if err != nil {
		return nil, err
	}
	testing, err := r.tor.TestingNetwork(ctx)
	if err != nil {
		return nil, err
	}
	c := descriptor.Consensus{ValidAfter: now.from, FreshUntil: now.until, Interval: 24 * time.Hour}
	times, err := c.Schedule(testing)
	if err != nil {
		return nil, err
	}
	sealed, err := descriptor.Parse([]byte(s.Descriptor), time.Now())
	if err != nil {
		return nil, err
	}
	period, err := sealed.Period(a, times.Periods())
	if err != nil {
		return nil, err
	}
	d, err := sealed.Open(a, period, nil, time.Now())
	if err != nil {
		return nil, err
	}
	points := map[string]bool{}
	for _, p := range d.Points {
		points[p.Relay.String()] = true
	}
	return points, nil
}
