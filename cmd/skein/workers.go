package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
)

func (a *app) workersCommand() *cobra.Command {
	return &cobra.Command{
		Use: "workers", Short: "Who runs chunks: health, rate, backlog and time to drain", Args: exactly(0, ""),
		Long: "As the holder sees them. Three signals decide what a worker gets: whether it lives,\n" +
			"whether it is ready, and how it gets on (idle, normal, slow, degraded, stuck).\n" +
			"VERDICT is what follows: route; investigate, after the others; drain, no more; or\n" +
			"evict, what it has runs elsewhere. DRAIN is the time until it is done with BACKLOG.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				w, raw, err := fetch[api.Workers](ctx, c, "/v1/workers")
				if err != nil {
					return err
				}
				if w.Omitted > 0 {
					a.note("%s more are not listed; skein_workers counts all", plural(w.Omitted, "worker"))
				}
				return a.show(view{raw: raw, body: w, items: items(w.Workers), table: func(f form) table { return workersTable(w, f) }})
			})
		},
	}
}

func workersTable(w api.Workers, f form) table {
	t := table{head: []string{"WORKER", "LIVE", "READY", "PROGRESS", "VERDICT", "SLOTS", "ASSIGNED", "BACKLOG", "RATE", "DRAIN"}}
	if f.wide() {
		t.head = append(t.head, "WINDOW", "CONNECTED", "DRAINING", "TRUSTED", "EXCLUDED")
	}
	for _, x := range w.Workers {
		ready := yesNo(x.Ready)
		if x.Draining && !f.wide() {
			ready = "draining"
		}
		speed := unknown
		switch {
		case x.RatePerSecond == nil:
		case f == formTSV:
			speed = number(*x.RatePerSecond)
		default:
			speed = count(*x.RatePerSecond) + "/s"
		}
		backlog := strconv.FormatUint(x.BacklogIterations, 10)
		if f == formTable {
			backlog = count(float64(x.BacklogIterations))
		}
		row := []string{
			string(x.Node), orDash(x.Live), ready, orDash(x.Progress), orDash(x.Verdict), strconv.Itoa(x.Slots),
			strconv.Itoa(x.Assigned), backlog, speed, f.age(&x.DrainSeconds),
		}
		if f.wide() {
			row = append(row, strconv.Itoa(x.Window), yesNo(x.Connected), yesNo(x.Draining), yesNo(x.Trusted), f.age(x.ExcludedSeconds))
		}
		t.add(row...)
	}
	return t
}
