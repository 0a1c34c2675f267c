package hosts

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
)

func watchCommand(a *cli.App) *cobra.Command {
	var q api.WatchQuery
	var since string
	var once bool
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "What the cluster shows, and each change of it, for programs",
		Long: "Prints one JSON value per line, as docs/watch.md describes: a snapshot of each topic,\n" +
			"then what changes. Topics are status, members, links, lease, terms, workers, zones,\n" +
			"jobs, workflows, load, onion and events; without --topics all but the links, the zones\n" +
			"and the events. It survives restarts of the daemon: it then begins again with snapshots,\n" +
			"and no event of the log is missed or comes twice.",
		Args: cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.Output != "" && a.Output != "table" && a.Output != "jsonl" {
				return cli.Usagef("a watch has no form %s", a.Output).WithHint("it prints one JSON value in each line")
			}
			if since != "" {
				var err error
				if q.Events.Since, q.Events.After, err = cli.ParseSince("--since", since, time.Now()); err != nil {
					return err
				}
			}
			c, err := a.Client()
			if err != nil {
				return err
			}
			defer c.Close()
			seen := false
			note, forget := a.Once()
			err = c.Watch(cmd.Context(), q, api.FollowOptions{Retry: func(cause error) error {
				if !seen {
					return cause
				}
				note("waiting for the daemon: %s", cause)
				return nil
			}}, func(m api.WatchMessage) error {
				seen = true
				forget()
				text, err := json.Marshal(m)
				if err != nil {
					return fmt.Errorf("encode message: %w", err)
				}
				if _, err := fmt.Fprintln(a.Out, string(text)); err != nil {
					return err
				}
				if once && m.Event == "synced" {
					return api.ErrStop
				}
				return nil
			})
			if cmd.Context().Err() != nil {
				return nil // Ctrl-C is how it ends
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&q.Topics, "topics", nil, "what to watch, like jobs,events")
	f.StringSliceVar(&q.Jobs, "job", nil, "also all figures of this job, by id or name")
	f.StringSliceVar(&q.Workflows, "workflow", nil, "also this run of a workflow with its steps, by id or name")
	f.StringSliceVar(&q.Loads, "load", nil, "also this load test with all that it counts, by id or name")
	f.StringSliceVar(&q.Links, "link", nil, "also all half-edges of this host")
	f.StringVar(&since, "since", "", "begin with earlier events: an age like 10m or 3d, a time, a date, or a position")
	f.Uint64Var(&q.Events.Tail, "tail", 0, "begin with the last so many events")
	f.StringVar(&q.Events.Entity, "entity", "", "only events about this: node:NAME, job:ID, run:ID, term:N, actor:USER or onion:ADDRESS")
	f.StringVar(&q.Events.Kind, "kind", "", "only events of these kinds, like 'lease_*,term_start'")
	f.BoolVar(&once, "once", false, "end when all topics were shown once")
	return cmd
}
