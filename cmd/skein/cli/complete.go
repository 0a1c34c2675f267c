package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/present"
)

// completeWithin is how long the daemon has to answer the shell, which a user waits
// for at every press of the key.
const completeWithin = 40 * time.Millisecond

// completer says what a word may be; files says that it names a file.
type completer struct {
	words func(ctx context.Context, a *App) []string
	files bool
}

func fixed[T ~string](words ...T) completer {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = string(w)
	}
	return completer{words: func(context.Context, *App) []string { return list }}
}

// asked are the words that the daemon knows; none if it does not answer in time.
func asked(list func(ctx context.Context, c *api.Client) []string) completer {
	return completer{words: func(ctx context.Context, a *App) []string {
		c, err := a.Client()
		if err != nil {
			return nil
		}
		defer c.Close()
		return list(ctx, c)
	}}
}

var (
	completeFiles = completer{files: true}
	completeNodes = asked(func(ctx context.Context, c *api.Client) (names []string) {
		m, _ := c.Members(ctx)
		for _, x := range m.Members {
			names = append(names, string(x.Node)+"\t"+string(present.StateOf(x)))
		}
		return names
	})
	completeJobs = asked(func(ctx context.Context, c *api.Client) (names []string) {
		list, _ := c.Jobs(ctx)
		for _, j := range list.Jobs {
			names = append(names, present.Short(j.ID)+"\t"+strings.TrimSpace(j.Name+" "+string(j.State)))
		}
		return names
	})
	completeRuns = asked(func(ctx context.Context, c *api.Client) (names []string) {
		list, _ := c.Workflows(ctx)
		for _, w := range list.Workflows {
			names = append(names, present.ShortRun(w.ID)+"\t"+strings.TrimSpace(w.Name+" "+string(w.State)))
		}
		return names
	})
	completeTests = asked(func(ctx context.Context, c *api.Client) (names []string) {
		list, _ := c.LoadRuns(ctx)
		for _, r := range list.Runs {
			names = append(names, present.ShortLoad(r.ID)+"\t"+strings.TrimSpace(r.Name+" "+present.LoadWord(r)))
		}
		return names
	})
	completeZones = asked(func(ctx context.Context, c *api.Client) (names []string) {
		list, _ := c.Zones(ctx)
		for _, z := range list.Zones {
			if z.Zone != "" {
				names = append(names, z.Zone+"\t"+z.Health)
			}
		}
		return names
	})
	completeGroups = asked(func(ctx context.Context, c *api.Client) (names []string) {
		list, _ := c.Groups(ctx)
		for _, g := range list.Groups {
			names = append(names, g.Name)
		}
		return names
	})
	completeReservations = asked(func(ctx context.Context, c *api.Client) (names []string) {
		list, _ := c.Reservations(ctx)
		for _, r := range list.Reservations {
			names = append(names, r.Name+"\t"+r.Owner)
		}
		return names
	})
	completeSchedules = asked(func(ctx context.Context, c *api.Client) (names []string) {
		list, _ := c.Schedules(ctx)
		for _, s := range list.Schedules {
			names = append(names, s.Name+"\t"+s.Cron)
		}
		return names
	})
	completeAddresses = asked(func(ctx context.Context, c *api.Client) (names []string) {
		o, _ := c.Onion(ctx)
		for _, x := range o.Addresses {
			names = append(names, x.Address)
		}
		return names
	})
	completeUsers = asked(func(ctx context.Context, c *api.Client) (names []string) {
		list, _ := c.Users(ctx)
		for _, u := range list.Users {
			names = append(names, u.Name)
		}
		return names
	})
	completeInvites = asked(func(ctx context.Context, c *api.Client) (names []string) {
		list, _ := c.Tokens(ctx)
		for _, t := range list.Tokens {
			names = append(names, t.ID)
		}
		return names
	})
	completeOutside = asked(func(ctx context.Context, c *api.Client) (names []string) {
		list, _ := c.OutsideWorkersPage(ctx, api.Page{})
		for _, w := range list.Workers {
			if w.State != api.StateRevoked {
				names = append(names, string(w.Worker)+"\t"+strings.TrimSpace(w.Name+" "+w.Owner))
			}
		}
		return names
	})
	completeAccess = asked(func(ctx context.Context, c *api.Client) (names []string) {
		list, _ := c.AccessTokens(ctx)
		for _, t := range list.Tokens {
			if t.State != api.StateRevoked {
				names = append(names, t.ID+"\t"+t.Owner)
			}
		}
		return names
	})
	completePrincipals = asked(func(ctx context.Context, c *api.Client) (names []string) {
		list, _ := c.Users(ctx)
		for _, u := range list.Users {
			names = append(names, cluster.UserPrincipal(u.Name))
		}
		return names
	})
	completeStates = fixed(cluster.Joining, cluster.Alive, cluster.Suspect, cluster.Dead, present.Stopped, cluster.Left, present.Removed)
	completeKinds  = completer{words: func(context.Context, *App) (kinds []string) {
		for _, k := range event.KindTable() {
			kinds = append(kinds, string(k.Kind))
		}
		return kinds
	}}
	jobStates = fixed(job.Pending, job.Queued, job.Running, job.Cancelling, job.Completed, job.Failed, job.Partial, job.Cancelled, job.TimedOut, job.Skipped)
)

// argument is what the words of a usage line stand for.
var argument = map[string]completer{
	"NODE": completeNodes, "ID": completeJobs, "RUN": completeRuns, "SCHEDULE": completeSchedules, "ADDRESS": completeAddresses, "FILE": completeFiles, "DIR": completeFiles,
	"WORKER": completeOutside, "MODE": fixed(cluster.ModeAuto, cluster.ModeQuorum, cluster.ModeAvailable),
	"TEST": completeTests, "FILE|URL": completeFiles, "FILE|TEST": completeFiles, "OLD": completeFiles, "NEW": completeFiles,
	"MEMBER": completePrincipals, "user:NAME|none": completePrincipals,
}

// argumentOf is argument where a word stands for something else than elsewhere.
var argumentOf = map[string]completer{
	"skein token revoke": completeInvites, "skein user enable": completeUsers, "skein user disable": completeUsers, "skein gateway token revoke": completeAccess,
	"skein group set": completeGroups, "skein reserve set": completeReservations, "skein reserve rm": completeReservations,
}

// flagValue is what the values of flags are; of flags that are not here, nothing that
// can be known.
var flagValue = map[string]completer{
	"config": completeFiles, "file": completeFiles, "input": completeFiles, "key": completeFiles, "out": completeFiles, "socket": completeFiles,
	"state-dir": completeFiles, "wasm": completeFiles, "join": completeFiles, "token": completeFiles, "key-file": completeFiles, "secrets": completeFiles, "dir": completeFiles,
	"node": completeNodes, "member": completeNodes, "worker": completeNodes, "to": completeNodes, "link": completeNodes, "from-peer": completeNodes,
	"on": completeNodes, "nodes": completeNodes, "zone": completeZones, "zone-prefer": completeZones, "owner": completePrincipals,
	"job": completeJobs, "after": completeJobs, "workflow": completeRuns, "load": completeTests, "kind": completeKinds, "user": completeUsers,
	"color": fixed("auto", "always", "never"), "output": fixed("table", "wide", "tsv", "csv", "json", "jsonl", "toml"),
	"profile": fixed(cluster.ProfileClassic, cluster.ProfileLAN, cluster.ProfileFast), "log-level": fixed("trace", "debug", "info", "warn", "error"),
	"mode": argument["MODE"], "via": fixed(api.ViaOnion, api.ViaMaster),
	"topics":     fixed("status", "members", "links", "lease", "terms", "workers", "zones", "jobs", "workflows", "load", "onion", "events"),
	"on-partial": fixed(job.PartialFinish, job.PartialFail, job.PartialWait), "replicate": fixed(job.CheckNone, job.CheckAdaptive, job.CheckAll), "permit": fixed("public", "owner"),
	"spread": fixed(api.SpreadSplit, api.SpreadEach), "zone-policy": fixed(flow.BestEffort, flow.MostZones, flow.FailFast), "wait": fixed("local", "stable"),
	"on-loss": fixed("continue", "abort", "redistribute"), "accept": fixed("suspect", "incomplete"), "ui": fixed("full", "ci", "none"),
	"format": fixed("otlp", "chrome"),
}

// flagValueOf is flagValue of one command.
var flagValueOf = map[string]completer{
	"skein members --state": completeStates, "skein members --role": fixed(cluster.RoleHolder, cluster.RoleStandby, cluster.RoleWitness),
	"skein job ls --state": jobStates, "skein user add --role": fixed("viewer", "submitter", "operator"),
	"skein gateway worker add --owner": completePrincipals, "skein gateway token create --owner": completePrincipals,
	"skein gateway token create --role": fixed("submit", "watch", "work"), "skein gateway worker add --key": fixed[string](),
	"skein workflow run --key": fixed[string](), "skein workflow graph --as": fixed("ascii", "mermaid"),
	"skein schedule run --key": fixed[string](), "skein schedule set --missed": fixed(flow.MissedSkip, flow.MissedLast, flow.MissedAll),
	"skein schedule set --overlap": fixed(flow.OverlapSkip, flow.OverlapQueueOne, flow.OverlapQueue, flow.OverlapReplace, flow.OverlapAllow),
	"skein job run --key":          fixed[string](), // no file, but the key of the job
	"skein load run --key":         fixed[string](),
	"skein job run --to":           completeFiles, "skein job outputs --to": completeFiles,
	"skein wait --for":          fixed("holder", "ready"),
	"skein schedule set --zone": fixed[string](), // of time
	"skein auth token --role":   fixed("viewer", "submitter", "operator"),
}

// Complete has the shell offer what a word may be: hosts, jobs, kinds, and files only
// where files are meant.
func (a *App) Complete(cmd *cobra.Command) {
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = a.completeArgs
	}
	visit := func(f *pflag.Flag) {
		c, known := flagValueOf[cmd.CommandPath()+" --"+f.Name]
		if !known {
			c = flagValue[f.Name]
		}
		if _, own := cmd.GetFlagCompletionFunc(f.Name); own || f.NoOptDefVal != "" {
			return
		}
		// The flag is there and has none yet: nothing else is an error.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return a.offer(cmd, c, typed)
		})
	}
	cmd.LocalNonPersistentFlags().VisitAll(visit)
	cmd.PersistentFlags().VisitAll(visit)
	for _, sub := range cmd.Commands() {
		if sub.Name() != "help" && sub.Name() != "completion" {
			a.Complete(sub)
		}
	}
}

// completeArgs finds what the next argument is in the usage line: `grant ADDRESS NODE`.
func (a *App) completeArgs(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	var c completer
	for i, word := range strings.Fields(cmd.Use)[1:] {
		more := strings.Contains(word, "...")
		if i == len(args) || more && i < len(args) {
			c = argument[strings.Trim(word, "[].")]
			break
		}
	}
	if own, known := argumentOf[cmd.CommandPath()]; known && len(args) == 0 {
		c = own
	}
	return a.offer(cmd, c, typed)
}

func (a *App) offer(cmd *cobra.Command, c completer, typed string) ([]string, cobra.ShellCompDirective) {
	if c.files {
		return nil, cobra.ShellCompDirectiveDefault
	}
	if c.words == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background() // the shell's own command has none
	}
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	defer cancel()
	words := slices.DeleteFunc(slices.Clone(c.words(ctx, a)), func(w string) bool { return !strings.HasPrefix(w, typed) })
	for i, w := range words {
		name, note, noted := strings.Cut(w, "\t")
		words[i] = present.Plain(name)
		if noted {
			words[i] += "\t" + present.Plain(note)
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}
