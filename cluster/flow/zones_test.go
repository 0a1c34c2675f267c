package flow

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster/job"
)

// TestZoned: a step for each zone, whose job runs there alone.
func TestZoned(t *testing.T) {
	spec := job.Spec{Key: "k", Name: "pi", Iterations: 10, Policy: job.Policy{Zones: []string{"a", "b"}, DeadlineSeconds: 9}}
	zones := []string{"eu-1", "EU.1", "1", strings.Repeat("z", 32)}
	d, err := (Zoned{Job: spec}).Workflow(zones)
	if err != nil || len(d.Steps) != 4 || d.Name != "pi" {
		t.Fatalf("%+v %v", d, err)
	}
	names := ""
	for i, s := range d.Steps {
		names += s.Name + " "
		if s.OnFailure != FailureIgnore || s.Job.Key != "" || len(s.Job.Zones) != 1 || s.Job.Zones[0] != zones[i] || s.Job.Name != "pi@"+zones[i] || s.Job.DeadlineSeconds != 9 || s.Job.Iterations != 10 {
			t.Errorf("%+v", s)
		}
	}
	if want := "zone_eu_1 zone_eu_1_2 zone_1 zone_" + strings.Repeat("z", 32) + " "; names != want {
		t.Errorf("%q", names)
	}
	if len(spec.Zones) != 2 || spec.Key != "k" {
		t.Error("the spec that was given is another now")
	}
	d, err = (Zoned{Job: spec, Policy: FailFast, DeadlineSeconds: 60}).Workflow(zones[:1])
	if err != nil || d.Steps[0].OnFailure != FailureStop || d.Steps[0].Job.DeadlineSeconds != 60 {
		t.Errorf("%+v %v", d, err)
	}
	for n, want := range []int{1, 2, 2, 3} {
		d, err = (Zoned{Job: spec, Policy: MostZones}).Workflow(zones[:n+1])
		if err != nil || d.Quorum != want || d.Steps[0].OnFailure != FailureIgnore {
			t.Errorf("%d zones: %+v %v", n+1, d, err)
		}
	}
	if got := d.Zones(); !slices.Equal(got, zones) {
		t.Errorf("zones %q", got)
	}
	if _, err := (Zoned{Job: spec}).Workflow(nil); err == nil {
		t.Error("no zones are taken")
	}
}

// TestZonedRefused: what cannot be is refused before anybody chooses zones.
func TestZonedRefused(t *testing.T) {
	many := make([]string, job.MaxZones+1)
	for name, c := range map[string]struct {
		z  Zoned
		ok bool
	}{
		"nothing":         {Zoned{}, true},
		"all of it":       {Zoned{Count: 2, Prefer: []string{"a"}, Policy: MostZones, DeadlineSeconds: 60}, true},
		"policy":          {Zoned{Policy: "most"}, false},
		"count":           {Zoned{Count: -1}, false},
		"too many":        {Zoned{Count: job.MaxZones + 1}, false},
		"too many named":  {Zoned{Count: 1, Prefer: many}, false},
		"prefer alone":    {Zoned{Prefer: []string{"a"}}, false},
		"deadline":        {Zoned{DeadlineSeconds: -1}, false},
		"deadline, far":   {Zoned{DeadlineSeconds: 1e12}, false},
		"deadline, never": {Zoned{DeadlineSeconds: math.NaN()}, false},
	} {
		if err := c.z.Check(); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (Zoned{Policy: "most"}).Workflow([]string{"a"}); err == nil {
		t.Error("an unknown policy is taken")
	}
}

// TestZonedFits: the same again is the run that there is, wherever that was put.
func TestZonedFits(t *testing.T) {
	for name, c := range map[string]struct {
		count        int
		among, zones []string
		want         bool
	}{
		"all, of before":      {0, nil, []string{"a", "b"}, true},
		"those named":         {0, []string{"b", "a"}, []string{"a", "b"}, true},
		"one less":            {0, []string{"b", "a"}, []string{"a"}, false},
		"another":             {0, []string{"a", "b"}, []string{"a", "c"}, false},
		"so many":             {2, nil, []string{"a", "b"}, true},
		"more":                {3, nil, []string{"a", "b"}, false},
		"so many of those":    {2, []string{"a", "b", "c"}, []string{"a", "b"}, true},
		"so many, of others":  {2, []string{"a", "b", "c"}, []string{"a", "d"}, false},
		"none of another run": {0, nil, nil, true},
	} {
		z := Zoned{Count: c.count, Job: job.Spec{Policy: job.Policy{Zones: c.among}}}
		if got := z.Fits(c.zones); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
