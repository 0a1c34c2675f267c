package loadtest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/engine"
	"github.com/skein-project/skein/load/push"
	"github.com/skein-project/skein/load/report"
	"github.com/skein-project/skein/load/room"
	"github.com/skein-project/skein/load/rule"
	"github.com/skein-project/skein/present"
)

// runFlags are those of load run.
type runFlags struct {
	sources
	rate       float64
	length     time.Duration
	users      int
	thresholds []string
	out        []string
	ui         string
	accept     []string
	local      bool
	maxRate    float64
	maxUsers   int
	allowBreak bool
	hosts      hostFlags
	version    string // of this program
}

const defaultUsers = 10

func runCommand(a *cli.App, o Options) *cobra.Command {
	f := runFlags{version: o.Version}
	cmd := &cobra.Command{
		Use: "run FILE|URL", Short: "Run a load test, from hosts of the cluster or from this machine", Args: cli.Exactly(1, "a scenario or a URL"),
		Long: "Sends the requests of a scenario, a TOML file (docs/load.md), or GETs one URL: with --rate\n" +
			"at that many a second, whatever the target does, else by --users that each begin again when\n" +
			"they have an answer. Latencies count from when a request was due. Ends with a table, and\n" +
			"exit code 0 if all thresholds hold, 8 if one is breached or the run was ended, 6 if the\n" +
			"figures may be the generator's own (--accept suspect makes that 0).\n" +
			"Hosts take part if [load] of their configuration allows it, --hosts of them or those of --on:\n" +
			"all begin at one instant, each with its share, and what they count is judged once. If a host\n" +
			"is lost the verdict is incomplete, exit code 8. Ctrl-C ends the test, and waits for its\n" +
			"report; a second one leaves it.\n" +
			"With --local the requests go out from this machine; Ctrl-C ends the run and shows what there\n" +
			"is. Link-local, metadata and multicast addresses and the mesh get nothing; addresses of the\n" +
			"internet at most 1000 requests/s and users unless --max-rate and --max-users say more.",
		Example: "  skein load run shop.toml --hosts 3\n" +
			"  skein load run --local --rate 500 --for 30s --users 50 http://127.0.0.1:8080/\n" +
			"  skein load run --local shop.toml --out report.html --out junit.xml",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !f.local {
				return f.runOnHosts(a, cmd.Context(), args[0], func(name string) bool { return cmd.Flags().Changed(name) })
			}
			for _, name := range []string{"hosts", "on", "on-loss", "key", "detach"} {
				if cmd.Flags().Changed(name) {
					return cli.Usagef("--%s is for tests on hosts", name).WithHint("leave --local out")
				}
			}
			return f.run(a, cmd.Context(), args[0], o, func(name string) bool { return cmd.Flags().Changed(name) })
		},
	}
	x := cmd.Flags()
	x.BoolVar(&f.local, "local", false, "from this machine, without a cluster")
	f.hosts.add(cmd)
	x.Float64Var(&f.rate, "rate", 0, "of a URL: requests a second")
	x.DurationVar(&f.length, "for", 30*time.Second, "of a URL: how long")
	x.IntVar(&f.users, "users", 0, fmt.Sprintf("of a URL: users at a time (default %d; with --rate as many as it takes, up to 1000)", defaultUsers))
	x.StringArrayVar(&f.thresholds, "threshold", nil, "of a URL: what must hold, as 'p(95)<500' or 'rate(failed)<1%'")
	x.StringArrayVar(&f.out, "out", nil, outHelp)
	x.StringVar(&f.ui, "ui", "", uiHelp)
	x.StringSliceVar(&f.accept, "accept", nil, "a verdict that is good enough: suspect, incomplete")
	x.StringArrayVar(&f.vars, "var", nil, "another value for a variable of the scenario: NAME=VALUE")
	x.StringVar(&f.secrets, "secrets", "", "directory of secrets, a file for each ${secret.NAME}")
	x.Float64Var(&f.maxRate, "max-rate", 0, "requests a second that addresses of the internet get at most (default 1000)")
	x.IntVar(&f.maxUsers, "max-users", 0, "users that send to addresses of the internet at most (default 1000)")
	x.BoolVar(&f.allowBreak, "allow-break", false, "go on when more than half of the requests failed for 30 s")
	return cmd
}

const outHelp = "file to write: .json (the report), .html, .xml (JUnit) or .csv by its name;\nor where what is counted goes meanwhile: csv=FILE, influx=URL, otlp=URL,\nprometheus=URL, statsd=HOST:PORT (docs/load.md)"

// formats are the files that a report can be, by the ending of their names.
var formats = []string{".json", ".html", ".xml", ".csv"}

// checkShown looks at the flags that say how a test is shown and judged.
func (f *runFlags) checkShown() error {
	files, feeds := f.outputs()
	for _, text := range feeds {
		if err := push.Check(text); err != nil {
			return cli.Usagef("--out: %s", err)
		}
	}
	for _, path := range files {
		if !slices.Contains(formats, filepath.Ext(path)) {
			return cli.Usagef("--out: %s is of no form that is known", path).
				WithHint("name it .json, .html, .xml (JUnit) or .csv, or say where goes what is counted meanwhile: KIND=WHERE, KIND one of %s", strings.Join(push.Kinds, ", "))
		}
	}
	if !slices.Contains([]string{"", uiFull, uiCI, uiNone}, f.ui) {
		return cli.Usagef("--ui is %q", f.ui).WithHint("use full, ci or none")
	}
	return accepts(f.accept)
}

// check looks at the flags before anything is sent.
func (f *runFlags) check(what string, changed func(string) bool) error {
	if err := f.checkShown(); err != nil {
		return err
	}
	if f.maxRate < 0 || f.maxUsers < 0 {
		return cli.Usagef("--max-rate and --max-users must be more than 0")
	}
	if isURL(what) {
		switch {
		case f.rate < 0 || f.rate > load.MaxRate || f.rate != f.rate:
			return cli.Usagef("--rate is %g, want up to %d", f.rate, load.MaxRate)
		case changed("rate") && f.rate == 0:
			return cli.Usagef("--rate is 0")
		case changed("users") && (f.users < 1 || f.users > load.MaxUsers):
			return cli.Usagef("--users is %d, want 1 to %d", f.users, load.MaxUsers)
		case f.length < time.Second || f.length > load.MaxTime:
			return cli.Usagef("--for is %s, want 1s to %s", f.length, load.MaxTime)
		}
		return nil
	}
	if _, err := os.Stat(what); errors.Is(err, fs.ErrNotExist) && filepath.Ext(what) != ".toml" {
		return cli.Usagef("%s is neither a file nor a URL", what).WithHint("a scenario is a file of this machine; a URL begins with http:// or https://")
	}
	for _, name := range []string{"rate", "for", "users", "threshold"} {
		if changed(name) {
			return cli.Usagef("--%s is for a URL", name).WithHint("the scenario says it: traffic and thresholds, see docs/load.md")
		}
	}
	return nil
}

func isURL(s string) bool {
	return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://")
}

// scenario reads what is to be run.
func (f *runFlags) scenario(a *cli.App, what string) (*scenario, error) {
	if !isURL(what) {
		return readScenario(a, what, f.sources)
	}
	users := f.users
	if users == 0 && f.rate == 0 {
		users = defaultUsers
	}
	s, err := load.FromURL(what, f.rate, users, f.length)
	if err != nil {
		return nil, faultsOf(what, err)
	}
	for _, t := range f.thresholds {
		s.Thresholds = append(s.Thresholds, load.Threshold{When: t})
	}
	return compile(a, s, what, f.sources)
}

func (f *runFlags) run(a *cli.App, ctx context.Context, what string, o Options, changed func(string) bool) error {
	if err := f.check(what, changed); err != nil {
		return err
	}
	s, err := f.scenario(a, what)
	if err != nil {
		return err
	}
	if err := room.Check(s.plan, 1, room.Own()); err != nil {
		return cli.Usagef("%s", err).WithHint("`ulimit -n` says how many files there may be; several hosts have more room, and http.connections = \"shared\" needs fewer")
	}
	room.Thrift(s.plan)
	screen, err := f.screen(a)
	if err != nil {
		return err
	}
	to, err := f.open(a, screen, push.Run{ID: "local-" + strings.ToLower(rand.Text()[:8]), Name: s.plan.Name})
	if err != nil {
		return err
	}
	defer to.close()
	opts := engine.Options{
		Gang: engine.Gang{Emit: to.frames(s.plan)}, Plan: s.plan, Rules: s.rules, Guard: o.guardOf(a), PublicRate: f.maxRate, PublicUsers: f.maxUsers, AllowBreak: f.allowBreak,
		TLS: s.tls, Files: s.files, Agent: "skein-load/" + o.Version, Seed: engine.NewSeed(), Watch: f.watch(a),
	}
	var r *report.Run
	if screen != nil {
		r, err = screen.local(ctx, s.plan, opts)
	} else {
		r, err = runEngine(ctx, opts)
	}
	if err != nil {
		return refusal(err)
	}
	d := report.New(s.plan, r)
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

func runEngine(ctx context.Context, o engine.Options) (*report.Run, error) {
	e, err := engine.New(o)
	if err != nil {
		return nil, err
	}
	return e.Run(ctx)
}

// refusal: nothing was sent.
func refusal(err error) error {
	refused, ok := errors.AsType[*engine.RefusedError](err)
	if !ok {
		return err
	}
	e := cli.Usagef("%s", err)
	switch {
	case strings.Contains(err.Error(), "of the internet"):
		return e.WithHint("if the target is yours, say how much it may get: --max-rate, --max-users")
	case refused.OfTarget():
		return e.WithHint("no run sends anything there")
	}
	return e
}

// verdict sets the exit code.
func (f *runFlags) verdict(a *cli.App, d *report.Report) error {
	switch d.Verdict {
	case rule.Passed:
		return nil
	case rule.Stopped:
		a.Code = cli.ExitInterrupted
		return nil
	case rule.Suspect:
		if slices.Contains(f.accept, string(rule.Suspect)) {
			return nil
		}
		return cli.Failf(cli.ExitDegraded, "suspect: %s", strings.Join(d.Why, "; ")).
			WithHint("use a less busy machine or a lower rate; --accept suspect takes the figures as they are")
	}
	if d.Verdict == rule.Incomplete && slices.Contains(f.accept, string(rule.Incomplete)) {
		return nil
	}
	return cli.Failf(cli.ExitGoal, "%s: %s", d.Verdict, strings.Join(d.Why, "; "))
}

// watch shows how the run gets on.
func (f *runFlags) watch(a *cli.App) func(engine.Status) {
	if f.ui == uiNone {
		return nil
	}
	return func(s engine.Status) {
		each := 10 * time.Second
		if s.Of <= 30*time.Second {
			each = 5 * time.Second
		}
		if s.At%each != 0 {
			return
		}
		planned, warm, dropped := "", "", ""
		if s.Planned > 0 {
			planned = " of " + report.PerSecond(s.Planned)
		}
		if s.Warm {
			warm = "  warm-up"
		}
		if s.Dropped > 0 {
			dropped = fmt.Sprintf("  dropped %d", s.Dropped)
		}
		a.Note("%s/%s%s  %s%s  users %d  queue %d  p50 %s  p95 %s  p99 %s ms  failed %s%s", s.At.Round(time.Second), s.Of.Round(time.Second), warm,
			report.PerSecond(s.Rate), planned, s.Users, s.Queue, report.Millis(s.P50), report.Millis(s.P95), report.Millis(s.P99), report.Percent(s.Failed), dropped)
	}
}

// show writes the result as -o asks for.
func show(a *cli.App, d *report.Report) error {
	return a.Show(cli.View{
		Body: d, Items: cli.Items(d.Steps), Table: d.Table,
		Page: func(w io.Writer) {
			for _, l := range d.Lines() {
				fmt.Fprintln(w, present.Plain(l))
			}
			fmt.Fprintln(w)
			a.WriteTable(d.Table())
			for _, t := range []present.Table{d.ThresholdTable(), d.CheckTable(), d.HostTable(), d.ErrorTable()} {
				if len(t.Rows) > 0 {
					fmt.Fprintln(w)
					a.WriteTable(t)
				}
			}
			for _, g := range d.Generator.Doubts {
				if slices.Contains(d.Why, g) {
					continue // said above
				}
				fmt.Fprintf(w, "\nsuspect: %s\n", present.Plain(g))
			}
		},
	})
}

// export writes the report into a file, in the form that its name says.
func export(a *cli.App, d *report.Report, path string, accept []string) error {
	var text []byte
	var err error
	switch filepath.Ext(path) {
	case ".html":
		text = d.HTML()
	case ".xml":
		text, err = d.JUnit(accept...)
	case ".csv":
		var b strings.Builder
		cli.WriteCSV(&b, d.Table())
		text = []byte(b.String())
	default:
		text, err = json.MarshalIndent(d, "", " ")
		text = append(text, '\n')
	}
	if err != nil {
		return err
	}
	if err := writeOut(path, text); err != nil {
		return err
	}
	if a.Verbose {
		a.Note("wrote %s", path)
	}
	return nil
}
