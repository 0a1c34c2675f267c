package zones

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/scheduler/zone"
)

const (
	// lostTime is how long a zone is unhealthy before what has not begun leaves it: longer
	// than a host takes to start again.
	lostTime = 30 * time.Second
	// moveEvery is how often jobs are looked at while a zone is lost.
	moveEvery = 5 * time.Second
)

// lost says which zones nothing is expected of any more, and why.
func (z *Board) lost(now time.Duration) map[string]string {
	z.mu.Lock()
	defer z.mu.Unlock()
	out := map[string]string{}
	for name, s := range z.state {
		if s.Health == zone.Unhealthy && now-s.Since >= lostTime {
			out[name] = s.Why
		}
	}
	if len(out) == 0 || z.moved != 0 && now-z.moved < moveEvery {
		return nil
	}
	z.moved = now
	return out
}

// move takes work that has not begun out of zones that are lost, if the holder chose the
// job's zones and there are others that it could have chosen.
func (z *Board) move(ctx context.Context) {
	lost := z.lost(z.o.Now())
	if len(lost) == 0 || len(z.o.View().Unaware(event.KindJobZones)) > 0 {
		return
	}
	var list []zone.Candidate
	for _, p := range z.o.Log.Open() {
		if !slices.ContainsFunc(p.Zones, func(name string) bool { _, is := lost[name]; return is }) {
			continue
		}
		if list == nil {
			all, err := z.serve(ctx, forward.Asker{}, forward.None{})
			if err != nil {
				return
			}
			measure(z.o.View(), &all)
			list = all.Candidates()
		}
		zones, why := moved(p, lost, list)
		if zones == nil {
			continue
		}
		if err := z.o.Set(ctx, event.JobZones{Job: p.Job, Zones: zones, Reason: why[:min(len(why), cluster.MaxReason)]}); err != nil {
			z.log.Debug().Err(err).Str("job", string(p.Job)).Msg("job does not move")
		}
	}
}

// moved returns the zones in which a job goes on after some of its zones were lost; nil:
// it stays where it is.
func moved(p Placed, lost map[string]string, list []zone.Candidate) (zones []string, why string) {
	var gone []string
	for _, name := range p.Zones {
		if _, is := lost[name]; is {
			gone = append(gone, name)
		}
	}
	left := slices.DeleteFunc(slices.Clone(list), func(c zone.Candidate) bool {
		return c.Health == zone.Unhealthy || slices.Contains(p.Zones, c.Zone) || len(p.Choice.Among) > 0 && !slices.Contains(p.Choice.Among, c.Zone)
	})
	prefer := slices.DeleteFunc(slices.Clone(p.Choice.Prefer), func(name string) bool {
		return !slices.ContainsFunc(left, func(c zone.Candidate) bool { return c.Zone == name })
	})
	n := min(len(gone), len(left))
	if n == 0 {
		return nil, ""
	}
	chosen, err := zone.Choose(left, zone.Want{Count: n, Prefer: prefer, Random: chance(string(p.Job))})
	if err != nil {
		return nil, ""
	}
	zones = slices.DeleteFunc(slices.Clone(p.Zones), func(name string) bool { return slices.Contains(gone[:n], name) })
	zones = append(zones, chosen...)
	slices.Sort(zones)
	return zones, fmt.Sprintf("zone %s: %s", gone[0], lost[gone[0]])
}
