package hosts

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

func eventsCommand(a *cli.App) *cobra.Command {
	var q api.EventQuery
	var since, until, node string
	var all bool
	cmd := &cobra.Command{
		Use:   "events",
		Short: "The event log, oldest first",
		Long: "Each event is a sentence; -o wide shows its body as well, other forms all of it. Times\n" +
			"are UTC. For people it begins with the last 200, with -f the last 10, unless -n, --all,\n" +
			"--since or --limit says otherwise; the forms for programs begin with the first.\n" +
			"With -f it keeps printing new events and survives restarts of the daemon: no event is\n" +
			"missed or shown twice. A position is what `skein log heads --position` prints; it\n" +
			"means the same on every host. With -v the last position read is printed at the end.",
		Args: cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since != "" {
				var err error
				if q.Since, q.After, err = cli.ParseSince("--since", since, time.Now()); err != nil {
					return err
				}
			}
			if until != "" {
				at, position, err := cli.ParseSince("--until", until, time.Now())
				if err == nil && position != nil {
					err = cli.Usagef("--until: want a time, not a position")
				}
				if err == nil && q.Follow {
					err = cli.Usagef("--until and -f contradict each other")
				}
				if err != nil {
					return err
				}
				q.Until = at
			}
			if node != "" {
				id, err := cluster.ParseNodeID(node)
				if err != nil {
					return cli.Usagef("--node: %s", err)
				}
				q.Node = id
			}
			if a.Output == "toml" {
				return cli.Usagef("events have no TOML form").WithHint("use -o jsonl: one value in each line")
			}
			if q.Follow && a.Output == "json" {
				return cli.Usagef("one JSON value cannot be followed").WithHint("use -o jsonl: one value in each line")
			}
			switch {
			case all && q.Tail > 0:
				return cli.Usagef("--all and -n contradict each other")
			case q.Tail == 0 && !all && since == "" && q.Limit == 0 && forPeople(a):
				q.Tail = lastEvents
				if q.Follow {
					q.Tail = lastFollowed
				}
			}
			return events(a, cmd.Context(), q)
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&q.Follow, "follow", "f", false, "keep printing new events")
	f.StringVar(&since, "since", "", "only later ones: an age like 10m or 3d, a time like 2026-01-02T15:04:05Z, a date, or a position")
	f.StringVar(&until, "until", "", "not later than then: an age, a time or a date")
	f.Uint64VarP(&q.Tail, "tail", "n", 0, "begin with the last so many events, up to 10000")
	f.BoolVar(&all, "all", false, "begin with the first event")
	f.StringVar(&q.Entity, "entity", "", "only events about this: node:NAME, job:ID, run:ID, term:N, actor:USER or onion:ADDRESS")
	f.StringVar(&q.Kind, "kind", "", "only of these kinds, like 'lease_*,term_start'")
	f.Uint64Var(&q.Limit, "limit", 0, "stop after this many")
	f.StringVar(&node, "node", "", "only those that this host wrote")
	f.StringVar(&q.About.Job, "job", "", "only those about this job, by id or name")
	f.StringVar(&q.About.Member, "member", "", "only those about this host: facts that it wrote, and what names it")
	f.StringVar(&q.About.Worker, "worker", "", "only those about chunks on this host")
	f.StringVar(&q.About.User, "user", "", "only what this user asked for or is named in, like ann or uid:1000")
	return cmd
}

// How many events people see that do not say how many: some screens, or what there
// was just before.
const (
	lastEvents   = 200
	lastFollowed = 10
)

func forPeople(a *cli.App) bool { return a.Output == "table" || a.Output == "wide" }

func events(a *cli.App, ctx context.Context, q api.EventQuery) error {
	c, err := a.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	if !q.Follow {
		// Lines come as they are read: the deadline is for the whole answer.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(a.Timeout, time.Minute))
		defer cancel()
	}
	headed, seen, at := false, false, ""
	shown := uint64(0)
	p := &eventPrinter{App: a}
	note, forget := a.Once()
	err = c.Events(ctx, q, api.FollowOptions{Retry: func(cause error) error {
		if _, away := cause.(*api.UnreachableError); away && !seen { //nolint:errorlint // the first dial's own error
			return cause
		}
		if seen {
			note("waiting for the daemon: %s", cause)
		}
		seen = true
		return nil
	}, Position: func(p api.StreamPosition) {
		if p.Compacted {
			a.Note("older events are no longer kept: these begin at %s", p.Cursor)
		}
		at = p.Cursor
	}}, func(e api.Event) error {
		seen = true
		forget()
		first := !headed
		headed = true
		shown++
		if a.Output == "json" {
			return eventItem(a, e, first)
		}
		if first && a.Output != "jsonl" {
			p.head()
		}
		return p.line(e)
	})
	if q.Tail == lastEvents && shown == q.Tail && !q.Follow && err == nil {
		a.Note("these are the last %d: --all shows all", shown)
	}
	if a.Verbose && at != "" {
		a.Note("read up to %s", at)
	}
	if err == nil && !headed && q.About.Job != "" {
		a.Note("no event that was asked for is about job %s", q.About.Job)
	}
	if a.Output == "json" && err == nil {
		return a.EndArray(headed)
	}
	if q.Follow && ctx.Err() != nil {
		return nil // Ctrl-C is how a follower ends
	}
	return err
}

// Columns have fixed widths: lines come one by one.
const (
	eventColumns     = "%-20s  %-8s  %-16s  %s"
	wideEventColumns = "%-24s  %-8s  %6s  %5s  %-16s  %s  %s\n"
)

// eventPrinter writes one event after the other. On a terminal each day has a line of
// its own and each event one line, which is cut; elsewhere lines are whole.
type eventPrinter struct {
	*cli.App
	day string
}

func (p *eventPrinter) head() {
	names := [][]string{{"TIME", "NODE", "INC", "SEQ", "TERM", "KIND", "HASH", "BODY"}}
	switch {
	case p.Output == "tsv":
		cli.WriteTSVRows(p.Out, names)
	case p.Output == "csv":
		cli.WriteCSVRows(p.Out, names)
	case p.Output == "wide":
		fmt.Fprintf(p.Out, wideEventColumns, "TIME", "NODE", "SEQ", "TERM", "KIND", "EVENT", "BODY")
	case p.OutWidth == 0:
		fmt.Fprintf(p.Out, eventColumns+"\n", "TIME", "NODE", "KIND", "EVENT")
	}
}

// sentence is an event for people.
func (p *eventPrinter) sentence(e api.Event) error {
	what, at := present.Sentence(e.Source.Node, e.Kind, e.Body), e.Time.UTC()
	if p.OutWidth == 0 {
		_, err := fmt.Fprintf(p.Out, eventColumns+"\n", at.Format(time.RFC3339), e.Source.Node, e.Kind, what)
		return err
	}
	if day := at.Format("Monday 2 January 2006, UTC"); day != p.day {
		p.day = day
		fmt.Fprintln(p.Out, present.Cut(day, p.OutWidth))
	}
	_, err := fmt.Fprintln(p.Out, present.Cut(fmt.Sprintf("%s  %-4s  %s", at.Format(time.TimeOnly), e.Source.Node, present.Brief(what)), p.OutWidth))
	return err
}

// eventItem writes one element of the list that -o json is.
func eventItem(a *cli.App, e api.Event, first bool) error {
	b, err := json.MarshalIndent(e, "  ", "  ")
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	before := ",\n  "
	if first {
		before = "[\n  "
	}
	_, err = fmt.Fprintf(a.Out, "%s%s", before, b)
	return err
}

func (p *eventPrinter) line(e api.Event) error {
	a := p.App
	switch a.Output {
	case "jsonl":
		b, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("encode event: %w", err)
		}
		_, err = fmt.Fprintln(a.Out, string(b))
		return err
	case "tsv", "csv":
		row := []string{
			present.Stamp(e.Time), string(e.Source.Node), strconv.FormatUint(e.Source.Inc, 10), strconv.FormatUint(e.Seq, 10),
			strconv.FormatUint(uint64(e.Term), 10), string(e.Kind), e.Hash.String(), string(e.Body),
		}
		if a.Output == "csv" {
			cli.WriteCSVRows(a.Out, [][]string{row})
			return nil
		}
		_, err := fmt.Fprintln(a.Out, strings.Join(row, "\t"))
		return err
	}
	if a.Output == "wide" {
		what := present.Sentence(e.Source.Node, e.Kind, e.Body)
		_, err := fmt.Fprintf(a.Out, wideEventColumns, present.Stamp(e.Time), e.Source.Node, strconv.FormatUint(e.Seq, 10),
			present.TermOf(uint64(e.Term)), e.Kind, what, present.Plain(string(e.Body)))
		return err
	}
	return p.sentence(e)
}
