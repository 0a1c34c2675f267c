package loadtest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/engine"
	"github.com/skein-project/skein/load/report"
	"github.com/skein-project/skein/present"
)

func checkCommand(a *cli.App, o Options) *cobra.Command {
	var from sources
	var once bool
	cmd := &cobra.Command{
		Use: "check FILE", Short: "Check a scenario, or go through it once", Args: cli.Exactly(1, "a scenario"),
		Long: "Reads a scenario with all that it names, and says what it would do. Reports everything\n" +
			"that is wrong, with its line. --once goes through each flow once and prints each request and\n" +
			"its answer, with secrets taken out; it exits 8 if a step does not end as it should.",
		Example: "  skein load check shop.toml\n  skein load check shop.toml --once",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := readScenario(a, args[0], from)
			if err != nil {
				return err
			}
			e, err := engine.New(engine.Options{
				Plan: s.plan, Guard: o.guardOf(a), TLS: s.tls, Files: s.files, Agent: "skein-load/" + o.Version, Seed: engine.NewSeed(),
				Trace: func(x engine.Exchange) { fmt.Fprint(a.Out, exchangeText(x, s.plan.Secrets)) },
			})
			if err != nil {
				return refusal(err)
			}
			if !once {
				return a.Show(cli.View{Body: planOf(s.plan), Table: func() present.Table { return planTable(s.plan) }})
			}
			err = e.Once(cmd.Context())
			if errors.Is(err, engine.ErrNotAsExpected) {
				return cli.Failf(cli.ExitGoal, "%s", err)
			}
			return refusal(err)
		},
	}
	x := cmd.Flags()
	x.BoolVar(&once, "once", false, "go through each flow once, and print what is sent and answered")
	x.StringArrayVar(&from.vars, "var", nil, "another value for a variable of the scenario: NAME=VALUE")
	x.StringVar(&from.secrets, "secrets", "", "directory of secrets, a file for each ${secret.NAME}")
	return cmd
}

// plan is what a scenario would do.
type plan struct {
	Name       string        `json:"name"`
	Seconds    float64       `json:"seconds"`
	Warmup     float64       `json:"warmup_seconds"`
	Traffic    []planTraffic `json:"traffic"`
	Thresholds []string      `json:"thresholds"`
}

type planTraffic struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"` // open or closed
	Most    float64  `json:"most"` // arrivals a second, or users
	Users   int      `json:"users"`
	Seconds float64  `json:"seconds"`
	Steps   []string `json:"steps"`
}

func planOf(p *load.Plan) plan {
	out := plan{Name: p.Name, Warmup: p.Warmup.Seconds()}
	for _, t := range p.Traffics {
		one := planTraffic{Name: t.Name, Kind: "closed", Seconds: t.Length().Seconds()}
		stages := t.Users
		if t.Open {
			one.Kind, one.Users, stages = "open", t.MaxUsers, t.Rate
		}
		for _, s := range stages {
			one.Most = max(one.Most, s.To)
		}
		if !t.Open {
			one.Users = int(one.Most)
		}
		for _, s := range p.Flows[t.Flow].Steps {
			one.Steps = append(one.Steps, s.Name)
		}
		out.Seconds = max(out.Seconds, one.Seconds)
		out.Traffic = append(out.Traffic, one)
	}
	for _, t := range p.Thresholds {
		out.Thresholds = append(out.Thresholds, t.When)
	}
	return out
}

func planTable(p *load.Plan) present.Table {
	t := present.NewTable("TRAFFIC", "KIND", "MOST", "USERS", "TIME", "STEPS")
	for _, one := range planOf(p).Traffic {
		most := report.PerSecond(one.Most)
		if one.Kind == "closed" {
			most = present.Unknown
		}
		t.Add(one.Name, one.Kind, most, fmt.Sprint(one.Users), present.Age(one.Seconds), strings.Join(one.Steps, ", "))
	}
	return t
}

// maxShown bounds what is shown of a body.
const maxShown = 2048

// exchangeText is a request and its answer for people, without secrets.
func exchangeText(x engine.Exchange, secrets []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "== %s: %s in %s ms\n", x.Step, x.Class, report.Millis(x.Duration.Seconds()))
	part := func(mark string, text []byte) {
		text = []byte(load.Redact(string(text), secrets))
		if len(text) > maxShown {
			text = append(text[:maxShown:maxShown], "..."...)
		}
		for line := range strings.Lines(string(text)) {
			fmt.Fprintf(&b, "%s %s\n", mark, present.Plain(strings.TrimRight(line, "\r\n")))
		}
	}
	part(">", x.Request)
	if x.Status > 0 {
		part("<", x.Head)
		part("<", []byte("\n"))
		part("<", x.Body)
	}
	for i, text := range x.Texts {
		state := "-"
		if i < len(x.Checks) {
			state = map[bool]string{true: "ok", false: "FAILED"}[x.Checks[i]]
		}
		fmt.Fprintf(&b, "check %s: %s\n", state, text)
	}
	for name, value := range x.Values {
		fmt.Fprintf(&b, "%s = %s\n", name, present.Plain(present.Cut(load.Redact(value, secrets), 100)))
	}
	if x.Err != nil {
		fmt.Fprintf(&b, "error: %s\n", present.Plain(x.Err.Error()))
	}
	return load.Redact(b.String()+"\n", secrets)
}
