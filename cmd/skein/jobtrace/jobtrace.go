package jobtrace

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
	"github.com/skein-project/skein/present/trace"
)

// Forms of a trace.
const (
	formOTLP   = "otlp"
	formChrome = "chrome"
)

// Command is `skein job trace`.
func Command(a *cli.App) *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use: "trace ID", Short: "What a job did when, for a viewer of traces", Args: cli.Exactly(1, "the id or the name of a job"),
		Long: "Writes the job and each attempt at its chunks as spans, made from the event log:\n" +
			"any host has it, at any time, and makes the same. otlp is the JSON that a collector\n" +
			"of OpenTelemetry takes at /v1/traces; chrome is for ui.perfetto.dev and\n" +
			"chrome://tracing. Times are those of the events. On a terminal it says only what\n" +
			"there is, unless --format or -o json is given.",
		Example: "  skein job trace jabc > t.json\n" +
			"  curl -H 'Content-Type: application/json' -d @t.json localhost:4318/v1/traces\n" +
			"  skein job trace jabc --format chrome > jabc.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.OneOf("--format", form, formOTLP, formChrome); err != nil {
				return err
			}
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				j, err := c.Job(ctx, args[0])
				if err != nil {
					return err
				}
				h, err := c.JobHistory(ctx, string(j.ID), true)
				if err != nil {
					return err
				}
				t := trace.Of(j, h)
				if h.Omitted > 0 {
					a.Note("the trace lacks the first %d changes: a host tells the last %d", h.Omitted, api.MaxTransitions)
				}
				if a.OutWidth > 0 && !cmd.Flags().Changed("format") && a.Output != "json" {
					_, err := fmt.Fprintf(a.Out, "the trace of %s, with %s, is for a viewer: write it to a file, as with `skein job trace %[1]s > trace.json`,\n"+
						"or with --format chrome for ui.perfetto.dev. To read here: `skein job status %[1]s --history --chunks`.\n",
						present.Short(j.ID), present.Plural(len(t.Attempts), "attempt"))
					return err
				}
				encode := t.OTLP
				if form == formChrome {
					encode = t.Chrome
				}
				text, err := encode()
				if err != nil {
					return err
				}
				_, err = a.Out.Write(text)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&form, "format", formOTLP, "otlp or chrome")
	return cmd
}
