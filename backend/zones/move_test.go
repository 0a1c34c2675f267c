package zones

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/zone"
)

// TestMoved: a job leaves zones that are lost for the best of those of which it could have
// been, as far as there are some, and stays out of all others.
func TestMoved(t *testing.T) {
	at := func(name string, h zone.Health, rtt time.Duration) zone.Candidate {
		return zone.Candidate{Zone: name, Health: h, RTT: rtt * time.Millisecond, Slots: 4, Free: 4}
	}
	list := []zone.Candidate{at("ams", zone.Healthy, 1), at("fra", zone.Unhealthy, 30), at("osl", zone.Degraded, 1), at("rome", zone.Healthy, 200), at("syd", zone.Unhealthy, 1)}
	lost := map[string]string{"fra": "none of 3 hosts is alive"}
	for name, c := range map[string]struct {
		zones  []string
		choice job.ZoneChoice
		want   []string
	}{
		"to the nearest":              {[]string{"fra"}, job.ZoneChoice{Count: 1}, []string{"ams"}},
		"not where it is":             {[]string{"ams", "fra"}, job.ZoneChoice{Count: 2}, []string{"ams", "rome"}},
		"to the preferred":            {[]string{"fra"}, job.ZoneChoice{Count: 1, Prefer: []string{"fra", "rome", "gone"}}, []string{"rome"}},
		"health first":                {[]string{"ams", "fra", "rome"}, job.ZoneChoice{Count: 3}, []string{"ams", "osl", "rome"}},
		"never outside its zones":     {[]string{"fra"}, job.ZoneChoice{Count: 1, Among: []string{"fra", "syd"}}, nil},
		"never outside, one is there": {[]string{"fra"}, job.ZoneChoice{Count: 1, Among: []string{"fra", "osl", "syd"}}, []string{"osl"}},
		"nothing is lost":             {[]string{"ams"}, job.ZoneChoice{Count: 1}, nil},
		"none is left":                {[]string{"ams", "fra", "osl", "rome"}, job.ZoneChoice{Count: 4}, nil},
	} {
		got, why := moved(Placed{Job: "j", Zones: c.zones, Choice: c.choice}, lost, list)
		if !slices.Equal(got, c.want) || got != nil && why != "zone fra: none of 3 hosts is alive" {
			t.Errorf("%s: %v (%s), want %v", name, got, why, c.want)
		}
	}
	// Of two that are lost as many are left as there are others.
	lost["syd"] = "all of its 2 hosts are drained"
	if got, _ := moved(Placed{Job: "j", Zones: []string{"fra", "syd"}, Choice: job.ZoneChoice{Count: 2, Among: []string{"ams", "fra", "syd"}}}, lost, list); !slices.Equal(got, []string{"ams", "syd"}) {
		t.Errorf("two are lost, and one is there: %v", got)
	}
}

// TestLostZoneMovesJobs: a zone that is gone for a while loses what has not begun, not one
// that comes back at once; not where a member does not know the event.
func TestLostZoneMovesJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		jobs := []Placed{{Job: "j1", Zones: []string{"fra"}, Choice: job.ZoneChoice{Count: 1}}, {Job: "j2", Zones: []string{"fra"}, Choice: job.ZoneChoice{Count: 1, Among: []string{"fra"}}}}
		asked := 0
		var set []event.JobZones
		w.o.Log = fakeLog{open: func() []Placed { asked++; return slices.Clone(jobs) }}
		w.o.Set = func(_ context.Context, b event.Register) error {
			z := b.(event.JobZones) //nolint:forcetypeassert,errcheck // always one
			set = append(set, z)
			if len(set) == 1 {
				return errors.New("busy")
			}
			jobs[0].Zones = z.Zones
			return b.Check()
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = w.Run(ctx) }()
		time.Sleep(20 * time.Second)
		w.change(func() { w.member("n3").Health = cluster.Dead })
		time.Sleep(10 * time.Second)
		w.change(func() { w.member("n3").Health = cluster.Alive })
		time.Sleep(60 * time.Second)
		synctest.Wait()
		if asked > 0 || len(set) > 0 {
			t.Fatalf("a zone that came back: %v", set)
		}
		w.change(func() { w.member("n3").Health, w.member("n4").Level = cluster.Dead, event.KindJobZones.Since()-1 })
		time.Sleep(60 * time.Second)
		synctest.Wait()
		if len(set) > 0 {
			t.Fatalf("a member does not know the event: %v", set)
		}
		w.change(func() { w.member("n4").Level = event.Level })
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if len(set) != 2 || set[1].Job != "j1" || !slices.Equal(set[1].Zones, []string{"ams"}) || set[1].Reason == "" {
			t.Errorf("%+v", set)
		}
		if asked > 8 {
			t.Errorf("the jobs were looked through %d times in 30 s", asked)
		}
	})
}
