package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

func (a *app) eventsCommand() *cobra.Command {
	var q api.EventQuery
	var since, node string
	cmd := &cobra.Command{
		Use:   "events",
		Short: "The event log, oldest first",
		Long: "With -f it goes on with what comes and survives restarts of the daemon: no event is\n" +
			"missed or shown twice. A position is what `skein log heads --position` prints; it\n" +
			"means the same on every host. `-v` tells the one up to which was read.",
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since != "" {
				var err error
				if q.Since, q.After, err = parseSince(since, time.Now()); err != nil {
					return err
				}
			}
			if node != "" {
				id, err := cluster.ParseNodeID(node)
				if err != nil {
					return usagef("--node: %s", err)
				}
				q.Node = id
			}
			if a.output == "toml" {
				return usagef("events have no TOML form").hint("use -o jsonl: one value in each line")
			}
			if q.Follow && a.output == "json" {
				return usagef("one JSON value cannot be followed").hint("use -o jsonl: one value in each line")
			}
			return a.events(cmd.Context(), q)
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&q.Follow, "follow", "f", false, "go on with what comes")
	f.StringVar(&since, "since", "", "only later ones: an age like 10m, a time like 2026-01-02T15:04:05Z, or a position")
	f.StringVar(&q.Kind, "kind", "", "only of these kinds, like 'lease_*,term_start'")
	f.Uint64Var(&q.Limit, "limit", 0, "end after so many")
	f.StringVar(&node, "node", "", "only those that this host wrote")
	return cmd
}

// parseSince reads an age, a time or a position.
func parseSince(s string, now time.Time) (time.Time, cluster.Cursor, error) {
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil, nil
	}
	if strings.Contains(s, "/") {
		at, err := cluster.ParseCursor(s)
		if err != nil {
			return time.Time{}, nil, usagef("--since: %s", err)
		}
		return time.Time{}, at, nil
	}
	return time.Time{}, nil, usagef("--since: %q is neither an age like 10m, nor a time like 2026-01-02T15:04:05Z, nor a position like n1/1:5,n2/1:7", s)
}

func (a *app) events(ctx context.Context, q api.EventQuery) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	if !q.Follow {
		// Lines come as they are read: the deadline is for the whole answer.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(a.timeout, time.Minute))
		defer cancel()
	}
	headed, seen, at := false, false, ""
	err = c.Events(ctx, q, api.FollowOptions{Retry: func(cause error) error {
		if _, away := cause.(*api.UnreachableError); away && !seen { //nolint:errorlint // the first dial's own error
			return cause
		}
		if seen {
			a.note("waiting for the daemon: %s", cause)
		}
		seen = true
		return nil
	}, Position: func(p api.StreamPosition) {
		if p.Compacted {
			a.note("older events are kept no more: these begin at %s", p.Cursor)
		}
		at = p.Cursor
	}}, func(e api.Event) error {
		seen = true
		first := !headed
		headed = true
		if a.output == "json" {
			return a.eventItem(e, first)
		}
		if first && a.output != "jsonl" {
			a.eventHead()
		}
		return a.eventLine(e)
	})
	if a.verbose && at != "" {
		a.note("read up to %s", at)
	}
	if a.output == "json" && err == nil {
		return a.eventsEnd(headed)
	}
	if q.Follow && ctx.Err() != nil {
		return nil // Ctrl-C is how a follower ends
	}
	return err
}

// eventColumns are fixed widths: lines come one by one.
const eventColumns = "%-24s  %-8s  %6s  %5s  %-16s  %s\n"

func (a *app) eventHead() {
	head := []any{"TIME", "NODE", "SEQ", "TERM", "KIND", "BODY"}
	names := table{head: []string{"TIME", "NODE", "INC", "SEQ", "TERM", "KIND", "HASH", "BODY"}}
	switch a.output {
	case "tsv":
		writeTSV(a.out, names)
		return
	case "csv":
		writeCSV(a.out, names)
		return
	}
	fmt.Fprintf(a.out, eventColumns, head...)
}

// eventItem writes one element of the list that -o json is.
func (a *app) eventItem(e api.Event, first bool) error {
	b, err := json.MarshalIndent(e, "  ", "  ")
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	before := ",\n  "
	if first {
		before = "[\n  "
	}
	_, err = fmt.Fprintf(a.out, "%s%s", before, b)
	return err
}

func (a *app) eventsEnd(some bool) error {
	end := "\n]\n"
	if !some {
		end = "[]\n"
	}
	_, err := io.WriteString(a.out, end)
	return err
}

func (a *app) eventLine(e api.Event) error {
	switch a.output {
	case "jsonl":
		b, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("encode event: %w", err)
		}
		_, err = fmt.Fprintln(a.out, string(b))
		return err
	case "tsv", "csv":
		row := []string{
			stamp(e.Time), string(e.Source.Node), strconv.FormatUint(e.Source.Inc, 10), strconv.FormatUint(e.Seq, 10),
			strconv.FormatUint(uint64(e.Term), 10), string(e.Kind), e.Hash.String(), string(e.Body),
		}
		if a.output == "csv" {
			writeCSV(a.out, table{rows: [][]string{row}})
			return nil
		}
		_, err := fmt.Fprintln(a.out, strings.Join(row, "\t"))
		return err
	}
	body := string(e.Body)
	if a.output != "wide" {
		body = cut(body, 160)
	}
	_, err := fmt.Fprintf(a.out, eventColumns, stamp(e.Time), e.Source.Node, strconv.FormatUint(e.Seq, 10),
		termOf(uint64(e.Term)), e.Kind, body)
	return err
}
