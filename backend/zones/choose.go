package zones

import (
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/scheduler/zone"
)

// givenTime is how long what was chosen counts until the workers show it.
const givenTime = 5 * time.Second

// given is work that went to a zone a moment ago.
type given struct {
	at    time.Duration
	zone  string
	slots int
}

// Log is the event log as a Board reads it.
type Log interface {
	// Spec is that of a job that the log knows.
	Spec(id job.ID) (job.Spec, bool)
	// Open are the open jobs whose zones were chosen.
	Open() []Placed
}

// Placed is an open job, and in which zones what has not begun of it runs.
type Placed struct {
	Job    job.ID
	Zones  []string
	Choice job.ZoneChoice
}

// Folded is a Log of what was folded.
type Folded struct {
	Log interface{ View(f func(*state.State)) }
}

// Spec implements Log.
func (f Folded) Spec(id job.ID) (spec job.Spec, ok bool) {
	f.Log.View(func(s *state.State) {
		j, known := s.Job(id)
		spec, ok = j.Spec, known
	})
	return spec, ok
}

// Open implements Log.
func (f Folded) Open() (out []Placed) {
	f.Log.View(func(s *state.State) {
		for _, j := range s.Jobs() {
			if j.State.Final() || j.Stopped || j.Spec.ZoneChoice == nil {
				continue
			}
			p := Placed{Job: j.ID, Zones: j.Spec.Zones, Choice: *j.Spec.ZoneChoice}
			if len(j.Zones) > 0 {
				p.Zones = j.Zones
			}
			out = append(out, p)
		}
	})
	return out
}

// Submitting wraps the holder's handling of submissions: where a number of zones is
// wanted, it chooses them, and next gets the job with these as its zones. A job that is
// known already stays where it was put.
func (z *Board) Submitting(next func(context.Context, forward.Asker, api.SubmitRequest) (api.SubmitResponse, error)) func(context.Context, forward.Asker, api.SubmitRequest) (api.SubmitResponse, error) {
	return func(ctx context.Context, by forward.Asker, req api.SubmitRequest) (api.SubmitResponse, error) {
		if req.ZoneCount == 0 && len(req.ZonePrefer) == 0 {
			return next(ctx, by, req)
		}
		if err := checkCount(req); err != nil {
			return api.SubmitResponse{}, err
		}
		id, wanted := job.NewID(by.Actor, req.Spec.Key), req
		again := func() bool {
			have, ok := z.o.Log.Spec(id)
			if ok = ok && fits(have.Zones, wanted); ok {
				req.Spec.Zones, req.Spec.ZoneChoice = have.Zones, have.ZoneChoice
			}
			return ok
		}
		if again() {
			return next(ctx, by, req)
		}
		var err error
		if req.Spec.Zones, err = z.choose(id, req); err != nil {
			return api.SubmitResponse{}, err
		}
		if len(z.o.View().Unaware(event.KindJobZones)) == 0 { // else it stays where it is put
			req.Spec.ZoneChoice = &job.ZoneChoice{Count: req.ZoneCount, Among: wanted.Spec.Zones, Prefer: req.ZonePrefer}
		}
		out, err := next(ctx, by, req)
		if err != nil && again() { // somebody else has just put it there
			return next(ctx, by, req)
		}
		return out, err
	}
}

// checkCount refuses what cannot be chosen by itself.
func checkCount(req api.SubmitRequest) error {
	switch {
	case req.ZoneCount < 1:
		return api.Errorf(api.CodeInvalidJob, "zone_prefer says nothing without zone_count, which is at least 1")
	case req.ZoneCount > job.MaxZones, len(req.ZonePrefer) > job.MaxZones:
		return api.Errorf(api.CodeInvalidJob, "zone_count is %d, zone_prefer names %d: at most %d", req.ZoneCount, len(req.ZonePrefer), job.MaxZones)
	}
	return nil
}

// fits reports whether zones could have been chosen for a request.
func fits(zones []string, req api.SubmitRequest) bool {
	if len(zones) != req.ZoneCount {
		return false
	}
	return len(req.Spec.Zones) == 0 || !slices.ContainsFunc(zones, func(z string) bool { return !slices.Contains(req.Spec.Zones, z) })
}

// choose chooses the zones of a job, in order of their names. Its randomness comes from
// the job: asked again in the same state, it chooses the same.
func (z *Board) choose(id job.ID, req api.SubmitRequest) ([]string, error) {
	want := zone.Want{Count: req.ZoneCount, Among: req.Spec.Zones, Prefer: req.ZonePrefer, Random: chance(string(id))}
	out, err := z.give(want, zone.Choose, func(n int) int { return (req.Spec.Chunks() + n - 1) / n })
	slices.Sort(out)
	return out, err
}

// Each chooses the zones of a run of a job that runs once in each.
func (z *Board) Each(id flow.RunID, q flow.Zoned) ([]string, error) {
	if among := q.Job.Zones; q.WaitForWorker && q.Count == 0 && len(among) > 0 {
		return among, nil
	}
	want := zone.Want{Count: q.Count, Among: q.Job.Zones, Prefer: q.Prefer, Random: chance(string(id))}
	return z.give(want, zone.Each, func(int) int { return q.Job.Chunks() })
}

// chance is a random number derived from a name.
func chance(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return h.Sum64()
}

// give calls choose with the zones as they are after what was given to them a moment ago,
// and remembers how many slots this takes in each of the n zones.
func (z *Board) give(want zone.Want, choose func([]zone.Candidate, zone.Want) ([]string, error), share func(n int) int) ([]string, error) {
	v, now := z.o.View(), z.o.Now()
	all, err := z.serve(context.Background(), forward.Asker{}, forward.None{})
	if err != nil {
		return nil, err
	}
	measure(v, &all)
	list := all.Candidates()
	z.mu.Lock()
	defer z.mu.Unlock()
	z.given = slices.DeleteFunc(z.given, func(g given) bool { return now-g.at >= givenTime })
	for i := range list {
		for _, g := range z.given {
			if g.zone == list[i].Zone {
				list[i].Free -= g.slots
				list[i].Queued += max(0, -list[i].Free)
				list[i].Free = max(0, list[i].Free)
			}
		}
	}
	out, err := choose(list, want)
	if e, ok := errors.AsType[*zone.RefusedError](err); ok {
		what := "zone_count"
		if want.Count == 0 {
			what = "zones"
		}
		return nil, api.Errorf(api.CodeInvalidJob, "%s: %s", what, e.Error()).WithHint("`skein zones` lists them")
	}
	for _, name := range out {
		for _, c := range list {
			if c.Zone == name {
				z.given = append(z.given, given{at: now, zone: name, slots: min(c.Slots, share(len(out)))})
			}
		}
	}
	return out, err
}
