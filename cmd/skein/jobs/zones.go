package jobs

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

// zoneFlags are those of job run about zones, but --zone.
type zoneFlags struct {
	count          int
	prefer         []string
	spread, policy string
	deadline       time.Duration
}

func (z *zoneFlags) flags(x *pflag.FlagSet) {
	x.IntVar(&z.count, "zone-count", 0, "run in this many zones, which the holder chooses, from --zone or from all")
	x.StringSliceVar(&z.prefer, "zone-prefer", nil, "with --zone-count: prefer these to others that are as healthy")
	x.StringVar(&z.spread, "spread", string(api.SpreadSplit), "split: one job over the zones; each: the whole job in each zone, as a workflow run")
	x.StringVar(&z.policy, "zone-policy", string(flow.BestEffort), "with --spread each: best_effort (end when all have), quorum (once most have completed) or fail_fast (with the first failure)")
	x.DurationVar(&z.deadline, "zone-deadline", 0, "with --spread each: time after which a zone's job ends as timeout, like 2h")
}

// check refuses flags that do not go together.
func (z zoneFlags) check(f jobFlags) error {
	each := z.spread == string(api.SpreadEach)
	switch {
	case z.spread != string(api.SpreadSplit) && !each:
		return cli.Usagef("--spread is %q, want %s or %s", z.spread, api.SpreadSplit, api.SpreadEach)
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

// ask has a submission say what the flags say.
func (z zoneFlags) ask(req *api.SubmitRequest) {
	req.ZoneCount, req.ZonePrefer = z.count, z.prefer
	if z.spread == string(api.SpreadEach) {
		req.Spread, req.ZonePolicy, req.ZoneDeadlineSeconds = api.SpreadEach, flow.ZonePolicy(z.policy), z.deadline.Seconds()
	}
}

// submitted says that a job runs in each zone, or follows its run.
func (z zoneFlags) submitted(a *cli.App, ctx context.Context, resp api.SubmitResponse, what string, follow bool) error {
	a.Note("run %s %s: in %s, %s", present.ShortRun(resp.Run), what, present.Plural(len(resp.Spec.Zones), "zone"), strings.Join(resp.Spec.Zones, ", "))
	if follow {
		return followRun(a, ctx, string(resp.Run))
	}
	switch a.Output {
	case "json", "jsonl":
		return a.Show(cli.View{Body: resp})
	}
	fmt.Fprintln(a.Out, resp.Run)
	return nil
}
