package jobs

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

func workersCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "workers", Short: "Who runs chunks: health, rate, backlog and time to drain", Args: cli.Exactly(0, ""),
		Long: "As the holder sees them. Three signals decide what a worker gets: whether it is\n" +
			"alive, whether it is ready, and how it progresses (idle, normal, slow, degraded,\n" +
			"stuck). VERDICT is what follows: route; investigate, it comes after the others;\n" +
			"drain, it gets no more; or evict, its work runs elsewhere. DRAIN is the time until\n" +
			"its BACKLOG is done. ACCEPTS is whose jobs the host runs (worker.accept).",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				w, raw, err := cli.Fetch[api.Workers](ctx, c, "/v1/workers")
				if err != nil {
					return err
				}
				if w.Omitted > 0 {
					a.Note("%s more are not listed; skein_workers counts all", cli.Plural(w.Omitted, "worker"))
				}
				return a.Show(cli.View{Raw: raw, Body: w, Items: cli.Items(w.Workers), Table: func(f cli.Form) cli.Table { return workersTable(w, f) }})
			})
		},
	}
}

func workersTable(w api.Workers, f cli.Form) cli.Table {
	t := cli.Table{Head: []string{"WORKER", "LIVE", "READY", "PROGRESS", "VERDICT", "SLOTS", "ASSIGNED", "BACKLOG", "RATE", "DRAIN"}}
	if f.Wide() {
		t.Head = append(t.Head, "WINDOW", "CONNECTED", "DRAINING", "TRUSTED", "EXCLUDED", "OWNER")
	}
	t.Head = append(t.Head, "ACCEPTS")
	for _, x := range w.Workers {
		ready := cli.YesNo(x.Ready)
		if x.Draining && !f.Wide() {
			ready = "draining"
		}
		speed := present.Unknown
		switch {
		case x.RatePerSecond == nil:
		case f == cli.FormTSV:
			speed = number(*x.RatePerSecond)
		default:
			speed = cli.Count(*x.RatePerSecond) + "/s"
		}
		backlog := strconv.FormatUint(x.BacklogIterations, 10)
		if f == cli.FormTable {
			backlog = cli.Count(float64(x.BacklogIterations))
		}
		row := []string{
			string(x.Node), cli.OrDash(x.Live), ready, cli.OrDash(x.Progress), cli.OrDash(x.Verdict), strconv.Itoa(x.Slots),
			strconv.Itoa(x.Assigned), backlog, speed, f.Age(&x.DrainSeconds),
		}
		if f.Wide() {
			row = append(row, strconv.Itoa(x.Window), cli.YesNo(x.Connected), cli.YesNo(x.Draining), cli.YesNo(x.Trusted), f.Age(x.ExcludedSeconds), cli.OrDash(x.Owner))
		}
		accepts := x.Accept
		if len(x.AcceptNames) > 0 && f.Wide() {
			accepts += ":" + strings.Join(x.AcceptNames, ",")
		}
		row = append(row, cli.OrDash(accepts))
		t.Add(row...)
	}
	return t
}
