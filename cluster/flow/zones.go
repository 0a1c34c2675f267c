package flow

import (
	"fmt"
	"strings"

	"github.com/skein-project/skein/cluster/job"
)

// ZonePolicy says when a run that has a job in each of several zones ends, and how.
type ZonePolicy string

// Values of ZonePolicy.
const (
	BestEffort ZonePolicy = "best_effort" // when all have ended; without the result of a zone it is partial
	FailFast   ZonePolicy = "fail_fast"   // with the first that fails, which stops the others
	MostZones  ZonePolicy = "quorum"      // once most have completed, which stops the others; it fails when most no longer can
)

// EachZone is a workflow that runs a job once in each zone, as a step by its name. A step
// ends as timeout after that many seconds; 0: when its job does.
func EachZone(spec job.Spec, zones []string, policy ZonePolicy, seconds float64) (Def, error) {
	d := Def{Name: spec.Name}
	var onFailure string
	switch policy {
	case BestEffort:
		onFailure = FailureIgnore
	case FailFast:
		onFailure = FailureStop
	case MostZones:
		onFailure, d.Quorum = FailureIgnore, len(zones)/2+1
	default:
		return d, Invalidf("zone_policy is %.32q, want %s, %s or %s", policy, BestEffort, MostZones, FailFast)
	}
	if len(zones) == 0 {
		return d, Invalidf("no zones")
	}
	taken := map[string]bool{}
	for _, z := range zones {
		s := Step{Name: stepOf(z, taken), OnFailure: onFailure, Job: spec}
		s.Job.Key, s.Job.Zones = "", []string{z}
		if s.Job.Name = spec.Name; spec.Name != "" && len(spec.Name)+1+len(z) <= job.MaxName {
			s.Job.Name = spec.Name + "@" + z
		}
		if seconds > 0 {
			s.Job.DeadlineSeconds = seconds
		}
		d.Steps = append(d.Steps, s)
	}
	return d, nil
}

// stepOf makes a name of a step of that of a zone: "zone_" before it, and _ for what a
// name cannot have. Of two that become the same one gets a number.
func stepOf(zone string, taken map[string]bool) string {
	name := "zone_" + strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, zone)
	base := name[:min(len(name), MaxName-4)]
	name = base
	for i := 2; taken[name]; i++ {
		name = fmt.Sprintf("%s_%d", base, i)
	}
	taken[name] = true
	return name
}
