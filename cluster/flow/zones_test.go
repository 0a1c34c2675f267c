package flow

import (
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster/job"
)

// TestEachZone: a step for each zone, whose job runs there alone.
func TestEachZone(t *testing.T) {
	spec := job.Spec{Key: "k", Name: "pi", Iterations: 10, Policy: job.Policy{Zones: []string{"a", "b"}, DeadlineSeconds: 9}}
	zones := []string{"eu-1", "EU.1", "1", strings.Repeat("z", 32)}
	d, err := EachZone(spec, zones, BestEffort, 0)
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
	d, err = EachZone(spec, zones[:1], FailFast, 60)
	if err != nil || d.Steps[0].OnFailure != FailureStop || d.Steps[0].Job.DeadlineSeconds != 60 {
		t.Errorf("%+v %v", d, err)
	}
	for n, want := range []int{1, 2, 2, 3} {
		d, err = EachZone(spec, zones[:n+1], MostZones, 0)
		if err != nil || d.Quorum != want || d.Steps[0].OnFailure != FailureIgnore {
			t.Errorf("%d zones: %+v %v", n+1, d, err)
		}
	}
	for _, policy := range []ZonePolicy{"", "most"} {
		if _, err := EachZone(spec, zones, policy, 0); err == nil {
			t.Errorf("policy %q is taken", policy)
		}
	}
	if _, err := EachZone(spec, nil, BestEffort, 0); err == nil {
		t.Error("no zones are taken")
	}
}
