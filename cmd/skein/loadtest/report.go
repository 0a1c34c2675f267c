package loadtest

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/load/report"
	"github.com/skein-project/skein/present"
)

func reportCommand(a *cli.App) *cobra.Command {
	var out, accept []string
	cmd := &cobra.Command{
		Use: "report FILE|TEST", Short: "Show the report of a run again", Args: cli.Exactly(1, "a report, or a load test"),
		Long: "Reads what `skein load run --out FILE.json` wrote, or gets the report of a load test that ran\n" +
			"on hosts, and shows it, or writes it in other forms.",
		Example: "  skein load report run.json\n  skein load report run.json --out run.html --out junit.xml",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := accepts(accept); err != nil {
				return err
			}
			d, err := reportOf(a, cmd.Context(), args[0])
			if err != nil {
				return err
			}
			for _, path := range out {
				if !slices.Contains(formats, filepath.Ext(path)) {
					return cli.Usagef("--out: %s is of no form that is known", path).WithHint("name it .json, .html, .xml (JUnit) or .csv")
				}
				if err := export(a, d, path, accept); err != nil {
					return err
				}
			}
			if len(out) > 0 {
				return nil
			}
			return show(a, d)
		},
	}
	cmd.Flags().StringArrayVar(&out, "out", nil, "file to write: .html, .xml (JUnit), .csv or .json by its name")
	cmd.Flags().StringSliceVar(&accept, "accept", nil, "a verdict that is not a failure in JUnit: suspect, incomplete")
	return cmd
}

// reportOf reads a file, or gets the report of a test.
func reportOf(a *cli.App, ctx context.Context, what string) (d *report.Report, err error) {
	if strings.ContainsAny(what, "./") {
		return readReport(what)
	}
	err = a.WithClient(ctx, func(ctx context.Context, c *api.Client) error {
		var run api.LoadRun
		if d, run, err = fetchReport(ctx, c, what); err == nil && d == nil {
			return cli.Failf(cli.ExitGoal, "%s: %s", run.Verdict, run.Why)
		}
		return err
	})
	return d, err
}

func readReport(path string) (*report.Report, error) {
	text, err := readFile(path, report.MaxDocument)
	if err != nil {
		return nil, err
	}
	d, err := report.Parse(text)
	if err != nil {
		return nil, cli.Usagef("%s %s", path, err).WithHint("want what `skein load run --out FILE.json` wrote")
	}
	return d, nil
}

func compareCommand(a *cli.App) *cobra.Command {
	var allowed string
	cmd := &cobra.Command{
		Use: "compare OLD NEW", Short: "Compare the reports of two runs", Args: cli.Exactly(2, "two reports"),
		Long: "Compares latencies, rate and failures of two runs, of all and of each step that both have.\n" +
			"With --max-regression it exits 8 if a figure is worse by more than that, beyond what\n" +
			"quantiles are exact to (2.2 % for two of them).",
		Example: "  skein load compare main.json branch.json --max-regression 10%",
		RunE: func(_ *cobra.Command, args []string) error {
			part := 0.0
			if allowed != "" {
				var err error
				if part, err = parsePart(allowed); err != nil {
					return err
				}
			}
			old, err := readReport(args[0])
			if err != nil {
				return err
			}
			now, err := readReport(args[1])
			if err != nil {
				return err
			}
			list := report.Compare(old, now, part)
			worse := 0
			for i := range list {
				if allowed == "" {
					list[i].Worse = false
				}
				if list[i].Worse {
					worse++
				}
			}
			if err := a.Show(cli.View{Body: list, Items: cli.Items(list), Table: func() present.Table { return report.CompareTable(list) }}); err != nil {
				return err
			}
			if worse > 0 {
				return cli.Failf(cli.ExitGoal, "%s worse by more than %s", present.Plural(worse, "figure"), allowed)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&allowed, "max-regression", "", "how much worse a figure may be, as 10%")
	return cmd
}

func parsePart(s string) (float64, error) {
	digits, percent := strings.CutSuffix(s, "%")
	x, err := strconv.ParseFloat(digits, 64)
	if percent {
		x /= 100
	}
	if err != nil || !(x >= 0 && x <= 100) {
		return 0, cli.Usagef("--max-regression is %q, want a share as 10%%", s)
	}
	return x, nil
}
