package flow

import (
	"fmt"
	"slices"
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

// Zoned is a job that runs once in each of several zones: a run of a workflow with a step
// for each. Its zones are those of the job, of these or of all as many as are chosen, or
// all of them.
type Zoned struct {
	Job    job.Spec   `json:"job"`
	Count  int        `json:"count,omitempty"`  // of zones that the holder chooses; 0: all
	Prefer []string   `json:"prefer,omitempty"` // with Count: these before others that are as healthy
	Policy ZonePolicy `json:"policy,omitempty"` // none: BestEffort
	// DeadlineSeconds after its beginning a zone's job ends as timeout; 0: when the job does.
	DeadlineSeconds float64 `json:"deadline_seconds,omitempty"`
	// WaitForWorker takes zones of the job that no host is in.
	WaitForWorker bool `json:"wait_for_worker,omitempty"`
}

// Check reports what is wrong with z by itself, but for its job.
func (z Zoned) Check() error {
	switch {
	case z.Count < 0 || z.Count > job.MaxZones || len(z.Prefer) > job.MaxZones:
		return Invalidf("zone_count is %d, zone_prefer names %d: at most %d", z.Count, len(z.Prefer), job.MaxZones)
	case len(z.Prefer) > 0 && z.Count == 0:
		return Invalidf("zone_prefer says nothing without zone_count")
	case !(z.DeadlineSeconds >= 0) || z.DeadlineSeconds > job.MaxDeadline.Seconds():
		return Invalidf("zone_deadline_seconds is %g, want at most %g", z.DeadlineSeconds, job.MaxDeadline.Seconds())
	}
	_, _, err := z.ends(1)
	return err
}

// ends says what the failure of a zone of n means, and how many must complete; 0: all.
func (z Zoned) ends(n int) (onFailure string, quorum int, err error) {
	switch z.Policy {
	case BestEffort, "":
		return FailureIgnore, 0, nil
	case FailFast:
		return FailureStop, 0, nil
	case MostZones:
		return FailureIgnore, n/2 + 1, nil
	}
	return "", 0, Invalidf("zone_policy is %.32q, want %s, %s or %s", string(z.Policy), BestEffort, MostZones, FailFast)
}

// Fits reports whether z, asked for again, may be the run in these zones.
func (z Zoned) Fits(zones []string) bool {
	among := z.Job.Zones
	if z.Count > 0 && len(zones) != z.Count || z.Count == 0 && len(among) > 0 && len(zones) != len(among) {
		return false
	}
	return len(among) == 0 || !slices.ContainsFunc(zones, func(name string) bool { return !slices.Contains(among, name) })
}

// Workflow is the run of z in these zones.
func (z Zoned) Workflow(zones []string) (Def, error) {
	d := Def{Name: z.Job.Name}
	onFailure, quorum, err := z.ends(len(zones))
	if err != nil {
		return d, err
	}
	if len(zones) == 0 {
		return d, Invalidf("no zones")
	}
	d.Quorum = quorum
	taken := map[string]bool{}
	for _, in := range zones {
		s := Step{Name: stepOf(in, taken), OnFailure: onFailure, Job: z.Job}
		s.Job.Key, s.Job.Zones = "", []string{in}
		if d.Name != "" && len(d.Name)+1+len(in) <= job.MaxName {
			s.Job.Name = d.Name + "@" + in
		}
		if z.DeadlineSeconds > 0 {
			s.Job.DeadlineSeconds = z.DeadlineSeconds
		}
		d.Steps = append(d.Steps, s)
	}
	return d, nil
}

// Zones are those of a run that Workflow made: of each step the one of its job.
func (d Def) Zones() (out []string) {
	for _, s := range d.Steps {
		out = append(out, s.Job.Zones...)
	}
	return out
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
