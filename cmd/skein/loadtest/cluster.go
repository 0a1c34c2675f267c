package loadtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/bundle"
	"github.com/skein-project/skein/load/gang"
	"github.com/skein-project/skein/load/guard"
	"github.com/skein-project/skein/load/report"
	"github.com/skein-project/skein/load/rule"
	"github.com/skein-project/skein/present"
)

const (
	oneTest = "the id of a load test, the beginning of it, or its name"
	// liveWait lies between two questions for a report that is not there yet.
	liveWait = time.Second
	// patience is how long a follower goes on that is not answered.
	patience = time.Minute
)

// hostFlags are those of load run for tests that run on hosts.
type hostFlags struct {
	hosts  int
	on     []string
	loss   string
	key    string
	detach bool
	mine   bool // what is followed was begun here: Ctrl-C ends it
}

func (h *hostFlags) add(cmd *cobra.Command) {
	x := cmd.Flags()
	x.IntVar(&h.hosts, "hosts", 0, "how many hosts take part (default: as few as carry the plan)")
	x.StringSliceVar(&h.on, "on", nil, "which hosts take part: names, with commas between")
	x.StringVar(&h.loss, "on-loss", "continue", "when a host is lost: continue, abort, or redistribute (the others take its share over)")
	x.StringVar(&h.key, "key", "", "idempotency key: the same key again is the same test (default: a new one)")
	x.BoolVarP(&h.detach, "detach", "d", false, "do not wait for its end")
}

// pack makes the bundle of a scenario or a URL, and compiles it.
func (f *runFlags) pack(what string) (*bundle.Bundle, *load.Plan, error) {
	b := &bundle.Bundle{Name: filepath.Base(what), Vars: map[string]string{}, Files: map[string][]byte{}}
	if isURL(what) {
		users := f.users
		if users == 0 && f.rate == 0 {
			users = defaultUsers
		}
		b.URL = &bundle.URL{URL: what, Rate: f.rate, Users: users, Seconds: f.length.Seconds(), Thresholds: f.thresholds}
	} else {
		text, err := readFile(what, load.MaxFile)
		if err != nil {
			return nil, nil, err
		}
		b.Scenario = string(text)
		for _, one := range f.vars {
			name, value, ok := strings.Cut(one, "=")
			if !ok {
				return nil, nil, cli.Usagef("--var is %q, want NAME=VALUE", one)
			}
			b.Vars[name] = value
		}
		s, err := b.Parse()
		if err != nil {
			return nil, nil, usage(what, err)
		}
		for _, name := range bundle.Needs(s) {
			at := name
			if !filepath.IsAbs(at) {
				at = filepath.Join(filepath.Dir(what), name)
			}
			if b.Files[name], err = readFile(at, load.MaxRows); err != nil {
				return nil, nil, err
			}
		}
	}
	p, _, err := b.Compile(nil)
	if err != nil {
		return nil, nil, usage(what, err)
	}
	return b, p, nil
}

// usage is a fault of what was asked for.
func usage(what string, err error) error {
	if _, ok := errors.AsType[load.Faults](err); ok {
		return faultsOf(what, err)
	}
	return cli.Usagef("%s: %s", what, err)
}

// runOnHosts submits a test and follows it.
func (f *runFlags) runOnHosts(a *cli.App, ctx context.Context, what string, changed func(string) bool) error {
	for _, name := range []string{"max-rate", "max-users", "allow-break", "secrets"} {
		if changed(name) {
			return cli.Usagef("--%s is for --local", name).WithHint("[load] in the configuration of each host says that: docs/load.md")
		}
	}
	if err := f.check(what, changed); err != nil {
		return err
	}
	b, p, err := f.pack(what)
	if err != nil {
		return err
	}
	for _, t := range gang.Targets(p) { // no host of any cluster would
		if a, err := netip.ParseAddr(t.Name); err == nil {
			if why := (guard.Guard{}).Refuse(a); why != "" {
				return cli.Usagef("nothing is ever sent to %s: %s", t, why)
			}
		}
	}
	text, err := b.Encode()
	if err != nil {
		return cli.Usagef("%s", err)
	}
	req := api.LoadRequest{Hosts: f.hosts.hosts, OnLoss: f.hosts.loss}
	if s, err := b.Parse(); err == nil { // what the scenario says, unless a flag does
		if !changed("hosts") && len(f.hosts.on) == 0 {
			req.Hosts = s.Slices
		}
		if !changed("on-loss") && s.OnLoss != "" {
			req.OnLoss = s.OnLoss
		}
	}
	if req.Key = f.hosts.key; req.Key == "" {
		req.Key = rand.Text()
	}
	for _, n := range f.hosts.on {
		id, err := cluster.ParseNodeID(n)
		if err != nil {
			return cli.Usagef("--on: %s", err)
		}
		req.On = append(req.On, id)
	}
	c, err := a.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	within, cancel := context.WithTimeout(ctx, max(a.Timeout, time.Minute))
	defer cancel()
	art, err := c.PutArtefact(within, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Bundle = art.Hash
	out, err := c.SubmitLoad(within, req)
	if x, ok := errors.AsType[*api.Problem](err); ok && x.Code == api.CodeConflict { // as --local refuses it
		return cli.Usagef("%s", err).WithHint("%s", x.Hint)
	}
	if err != nil {
		return err
	}
	if f.hosts.detach {
		fmt.Fprintln(a.Out, out.Run)
		return nil
	}
	a.Note("load test %s; Ctrl-C ends it, a second one leaves it", out.Run)
	f.hosts.mine = true
	return f.follow(a, ctx, c, string(out.Run))
}

// follow shows how a test gets on, and its report in the end.
func (f *runFlags) follow(a *cli.App, ctx context.Context, c *api.Client, id string) error {
	s, err := f.screen(a)
	if err != nil {
		return err
	}
	if f.hosts.mine {
		interrupted := ctx
		ctx = context.WithoutCancel(ctx)
		defer f.endOn(interrupted, a, c, id)()
	}
	to, err := f.openOf(a, ctx, c, s, id)
	if err != nil {
		return err
	}
	defer to.close()
	if s != nil {
		err = s.follow(ctx, c, id, f.hosts.mine, to)
	} else {
		err = watchLive(a, ctx, c, id, f.ui == uiNone, to)
	}
	if err != nil {
		return err
	}
	if a.Code == cli.ExitInterrupted {
		return nil
	}
	if err := awaitEnd(ctx, c, id); err != nil {
		return err
	}
	d, run, err := fetchReport(ctx, c, id)
	if err != nil {
		return err
	}
	if d == nil {
		return cli.Failf(cli.ExitGoal, "%s: %s", run.Verdict, run.Why)
	}
	files, _ := f.outputs()
	for _, path := range files {
		if err := export(a, d, path, f.accept); err != nil {
			return err
		}
	}
	if err := show(a, d); err != nil {
		return err
	}
	return f.verdict(a, d)
}

// endTry is how long one try to end a test may take, and lies between two.
const endTry = 5 * time.Second

// endOn ends a test when ctx ends, and its report is waited for; interrupting again
// leaves at once. The function that it returns calls this off.
func (f *runFlags) endOn(ctx context.Context, a *cli.App, c *api.Client, id string) func() {
	going, done := context.WithCancel(context.WithoutCancel(ctx))
	var trying sync.WaitGroup
	trying.Add(1)
	told := context.AfterFunc(ctx, func() {
		defer trying.Done()
		for going.Err() == nil {
			within, cancel := context.WithTimeout(going, endTry)
			_, err := c.StopLoad(within, id, api.LoadStopRequest{Reason: "interrupted"})
			if err == nil || !api.Temporary(err) { // it has ended, or what is followed says why not
				cancel()
				return
			}
			<-within.Done()
			cancel()
		}
	})
	return func() {
		if done(); told() {
			trying.Done()
		}
		trying.Wait()
	}
}

// watchLive tells what a test counts, a line now and then, until it has ended.
func watchLive(a *cli.App, ctx context.Context, c *api.Client, id string, quiet bool, to *feed) error {
	doing, shown := "", time.Time{}
	var total uint64
	since := liveSum{from: -1}
	err := hear(ctx, c, id, func(x api.LoadLive) {
		if x.Again {
			total, since = 0, liveSum{}
		}
		to.live(x)
		since.add(x)
		total += since.fresh
		if x.Doing != doing && x.Doing != "" && x.Doing != "running" && !quiet {
			doing = x.Doing
			a.Note("%s", present.Plain(doing))
		}
		if since.seconds > 0 && !quiet && (time.Since(shown) >= ciEach(x.Of) || x.State == event.LoadEnded) {
			shown = time.Now()
			a.Note("%s", since.line(x, total))
			since = liveSum{from: x.At}
		}
	}, nil)
	if ctx.Err() != nil {
		a.Code = cli.ExitInterrupted
		return nil
	}
	return err
}

// hear hears what a test counts until it has ended, or ctx has. Where nobody tells it any more it
// asks again, for a while; lost hears of that, nil: nobody does.
func hear(ctx context.Context, c *api.Client, id string, heard func(api.LoadLive), lost func(error)) error {
	last := time.Now()
	return c.FollowLoad(ctx, id, api.FollowOptions{Retry: func(cause error) error {
		if time.Since(last) > patience {
			return cause
		}
		if lost != nil {
			lost(cause)
		}
		return nil
	}}, func(x api.LoadLive) error {
		last = time.Now()
		heard(x)
		return nil
	})
}

// ciEach is how often a line is shown of a run of so many seconds.
func ciEach(of float64) time.Duration {
	if of <= 30 {
		return 5 * time.Second
	}
	return 10 * time.Second
}

// liveSum is what was counted since the last line.
type liveSum struct {
	requests, failed, dropped, fresh uint64
	seconds                          float64
	from                             float64 // of the run: hosts tell what they counted one after the other
	latency                          api.LoadTimes
}

func (s *liveSum) add(x api.LoadLive) {
	s.fresh = 0
	for _, st := range x.Steps {
		s.fresh += st.Requests
		s.failed += st.Failed
		s.dropped += st.Dropped
	}
	if s.requests += s.fresh; s.from < 0 { // where it began to be followed
		s.from = max(0, x.At-x.Seconds)
	}
	s.seconds = x.At - s.from
	if x.Latency.P50 > 0 {
		s.latency = x.Latency
	}
}

func (s *liveSum) line(x api.LoadLive, total uint64) string {
	var hosts []string
	lost := 0
	for _, h := range x.Hosts {
		switch {
		case h.Lost != "":
			hosts = append(hosts, string(h.Host)+" lost")
			lost++
		case h.Stage == "silent":
			hosts = append(hosts, string(h.Host)+" silent")
		}
	}
	failed := 0.0
	if n := s.requests + s.dropped; n > 0 {
		failed = min(1, float64(s.failed)/float64(n))
	}
	text := fmt.Sprintf("%s/%s  %s  requests %d  users %d  queue %d  p50 %s  p95 %s  p99 %s ms  failed %s  hosts %d", seconds(x.At), seconds(x.Of),
		report.PerSecond(float64(s.requests)/max(s.seconds, 0.1)), total, x.Users, x.Queue, millis(s.latency.P50), millis(s.latency.P95), millis(s.latency.P99),
		report.Percent(failed), len(x.Hosts)-lost)
	return strings.Join(append([]string{text}, hosts...), "  ")
}

// millis is a latency, unknown where nothing has ended.
func millis(x float64) string {
	if x == 0 {
		return present.Unknown
	}
	return report.Millis(x)
}

func seconds(x float64) time.Duration { return time.Duration(x) * time.Second }

// awaitEnd waits until the host that is asked knows of the end of a test: the holder tells
// followers of it, and may be ahead.
func awaitEnd(ctx context.Context, c *api.Client, id string) error {
	for began := time.Now(); ; {
		run, err := c.LoadRun(ctx, id)
		if err != nil || run.State == event.LoadEnded || time.Since(began) > patience/2 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(liveWait / 10):
		}
	}
}

// fetchReport gets the report of a test that has ended; nil: it has none.
func fetchReport(ctx context.Context, c *api.Client, id string) (*report.Report, api.LoadRun, error) {
	run, err := c.LoadRun(ctx, id)
	if err != nil {
		return nil, run, err
	}
	if run.State == event.LoadEnded && run.Report == nil {
		return nil, run, nil
	}
	for heard := time.Now(); ; {
		x, err := c.LoadReport(ctx, id)
		p, is := errors.AsType[*api.Problem](err)
		if err == nil {
			d, err := report.Parse(x.Report)
			return d, run, err
		}
		if !is || p.Code != api.CodeNotReady || time.Since(heard) > patience/2 || ctx.Err() != nil {
			return nil, run, err
		}
		select { // another host has it, or soon will
		case <-ctx.Done():
		case <-time.After(liveWait):
		}
	}
}

func watchCommand(a *cli.App, o Options) *cobra.Command {
	f := runFlags{version: o.Version}
	cmd := &cobra.Command{
		Use: "watch TEST", Aliases: []string{"follow"}, Short: "Follow a load test that runs on hosts", Args: cli.Exactly(1, oneTest),
		Long: "From any host: its picture on a terminal, else a line now and then, and the report in the\n" +
			"end, with the exit code of `skein load run`. q and Ctrl-C leave the test as it is.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.checkShown(); err != nil {
				return err
			}
			c, err := a.Client()
			if err != nil {
				return err
			}
			defer c.Close()
			if _, err := c.LoadRun(cmd.Context(), args[0]); err != nil {
				return err // not after a minute of asking again
			}
			return f.follow(a, cmd.Context(), c, args[0])
		},
	}
	cmd.Flags().StringArrayVar(&f.out, "out", nil, outHelp)
	cmd.Flags().StringVar(&f.ui, "ui", "", uiHelp)
	cmd.Flags().StringSliceVar(&f.accept, "accept", nil, "a verdict that is good enough: suspect, incomplete")
	return cmd
}

func listCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the load tests that run on hosts, newest first", Args: cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				list, raw, err := cli.Fetch[api.LoadRuns](ctx, c, "/v1/load")
				if err != nil {
					return err
				}
				return a.Show(cli.View{Raw: raw, Body: list, Items: cli.Items(list.Runs), Table: func() present.Table { return present.LoadRuns(list) }})
			})
		},
	}
}

func statusCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "status TEST", Aliases: []string{"show"}, Short: "One load test: its hosts, and what it came to", Args: cli.Exactly(1, oneTest),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				r, err := c.LoadRun(ctx, args[0])
				if err != nil {
					return err
				}
				return showTest(a, r)
			})
		},
	}
}

func showTest(a *cli.App, r api.LoadRun) error {
	return a.Show(cli.View{Body: r, Table: func() present.Table { return present.LoadRuns(api.LoadRuns{Header: r.Header, Runs: []api.LoadRun{r}}) }})
}

func stopCommand(a *cli.App) *cobra.Command {
	var reason string
	var all bool
	cmd := &cobra.Command{
		Use: "stop TEST | --all", Short: "End a load test; what it counted is its result",
		Args: func(cmd *cobra.Command, args []string) error {
			if all {
				return cli.Exactly(0, "with --all")(cmd, args)
			}
			return cli.Exactly(1, oneTest)(cmd, args)
		},
		Long: "No further request begins, and what is under way has 2 s. The report is made of what was\n" +
			"counted; the verdict is stopped, unless a threshold is breached. --all ends all that have\n" +
			"not ended, as far as you may.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				if all {
					return stopAll(a, ctx, c, reason)
				}
				r, err := c.StopLoad(ctx, args[0], api.LoadStopRequest{Reason: reason})
				if err != nil {
					return err
				}
				return showTest(a, r)
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the log")
	cmd.Flags().BoolVar(&all, "all", false, "all that have not ended")
	return cmd
}

// stopAll ends all tests that have not ended; failing to end one does not keep it from
// ending the others.
func stopAll(a *cli.App, ctx context.Context, c *api.Client, reason string) error {
	list, err := c.LoadRuns(ctx)
	if err != nil {
		return err
	}
	out := api.LoadRuns{Header: list.Header, Runs: []api.LoadRun{}}
	var failed []error
	for _, r := range list.Runs {
		if r.State == event.LoadEnded {
			continue
		}
		now, err := c.StopLoad(ctx, string(r.ID), api.LoadStopRequest{Reason: reason})
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", r.ID, err))
			continue
		}
		out.Runs = append(out.Runs, now)
	}
	if err := a.Show(cli.View{Body: out, Items: cli.Items(out.Runs), Table: func() present.Table { return present.LoadRuns(out) }}); err != nil {
		return err
	}
	return errors.Join(failed...)
}

// accepts checks which verdicts are good enough.
func accepts(list []string) error {
	for _, v := range list {
		if !slices.Contains([]string{string(rule.Suspect), string(rule.Incomplete)}, v) {
			return cli.Usagef("--accept is %q", v).WithHint("only suspect and incomplete can be accepted")
		}
	}
	return nil
}
