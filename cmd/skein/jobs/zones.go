package jobs

import (
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/scheduler/zone"
)

// Values of --spread.
const (
	spreadSplit = "split"
	spreadEach  = "each"
)

// zoneFlags are those of job run about zones, but --zone.
type zoneFlags struct {
	count          int
	prefer         []string
	spread, policy string
	deadline       time.Duration
}

func (z *zoneFlags) flags(x *pflag.FlagSet) {
	x.IntVar(&z.count, "zone-count", 0, "in so many zones, which the holder chooses: of --zone, or of all")
	x.StringSliceVar(&z.prefer, "zone-prefer", nil, "with --zone-count: these before others that are as healthy")
	x.StringVar(&z.spread, "spread", spreadSplit, "split: one job over the zones; each: the whole job in each zone, as a workflow run")
	x.StringVar(&z.policy, "zone-policy", string(flow.BestEffort), "with --spread each: best_effort (end when all have), quorum (once most have completed) or fail_fast (with the first failure)")
	x.DurationVar(&z.deadline, "zone-deadline", 0, "with --spread each: time after which a zone's job ends as timeout, like 2h")
}

// check refuses flags that do not go together.
func (z zoneFlags) check(f jobFlags) error {
	each := z.spread == spreadEach
	switch {
	case z.spread != spreadSplit && !each:
		return cli.Usagef("--spread is %q, want %s or %s", z.spread, spreadSplit, spreadEach)
	case z.count < 0 || z.count > job.MaxZones:
		return cli.Usagef("--zone-count is %d, want 1 to %d", z.count, job.MaxZones)
	case len(z.prefer) > 0 && z.count == 0:
		return cli.Usagef("--zone-prefer goes with --zone-count")
	case !each && (z.policy != string(flow.BestEffort) || z.deadline != 0):
		return cli.Usagef("--zone-policy and --zone-deadline go with --spread each")
	case z.policy != string(flow.BestEffort) && z.policy != string(flow.MostZones) && z.policy != string(flow.FailFast):
		return cli.Usagef("--zone-policy is %q, want %s, %s or %s", z.policy, flow.BestEffort, flow.MostZones, flow.FailFast)
	case z.deadline < 0 || z.deadline > job.MaxDeadline:
		return cli.Usagef("--zone-deadline is %s, want at most %s", z.deadline, job.MaxDeadline)
	case f.local && (each || z.count > 0):
		return cli.Usagef("--local knows no zones")
	}
	return nil
}

// run runs a job in each zone.
func (z zoneFlags) run(a *cli.App, ctx context.Context, c *api.Client, spec job.Spec, follow bool) error {
	limited, cancel := a.Limited(ctx)
	defer cancel()
	all, err := c.Zones(limited)
	if err != nil {
		return err
	}
	zones, err := z.choose(all, spec)
	if err != nil {
		return cli.Usagef("%s", err).WithHint("`skein zones` lists them")
	}
	d, err := flow.EachZone(spec, zones, flow.ZonePolicy(z.policy), z.deadline.Seconds())
	if err != nil {
		return err
	}
	a.Note("in zones %s", strings.Join(zones, ", "))
	return submitRun(a, ctx, c, api.WorkflowRequest{Key: spec.Key, Definition: d}, follow, func(err error) error { return err })
}

// choose says in which zones: so many of those named, or all of them. The chance in it
// comes of the job's key.
func (z zoneFlags) choose(all api.Zones, spec job.Spec) ([]string, error) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(spec.Key)) // never fails
	list, want := all.Candidates(), zone.Want{Count: z.count, Among: spec.Zones, Prefer: z.prefer, Random: h.Sum64()}
	if z.count > 0 {
		out, err := zone.Choose(list, want)
		slices.Sort(out)
		return out, err
	}
	var out []string
	for _, x := range list {
		if len(spec.Zones) == 0 || slices.Contains(spec.Zones, x.Zone) {
			out = append(out, x.Zone)
		}
	}
	// All that are named: no choice, but each is to be there.
	var e *zone.RefusedError
	if _, err := zone.Choose(list, zone.Want{Among: spec.Zones}); errors.As(err, &e) && len(e.Unknown) > 0 {
		return nil, e
	}
	if len(out) == 0 {
		return nil, errors.New("no host is in a zone")
	}
	return out, nil
}
