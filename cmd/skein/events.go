package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
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
		Long:  "With -f it goes on with what comes and survives restarts of the daemon.",
		Args:  exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since != "" {
				t, err := parseSince(since, time.Now())
				if err != nil {
					return err
				}
				q.Since = t
			}
			if node != "" {
				id, err := cluster.ParseNodeID(node)
				if err != nil {
					return usagef("--node: %s", err)
				}
				q.Node = id
			}
			if _, err := path.Match(q.Kind, ""); err != nil {
				return usagef("--kind: %q is not a pattern", q.Kind)
			}
			if q.Follow && a.output == "json" {
				return usagef("one JSON value cannot be followed").hint("use -o jsonl: one value in each line")
			}
			return a.events(cmd.Context(), q)
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&q.Follow, "follow", "f", false, "go on with what comes")
	f.StringVar(&since, "since", "", "only later ones: an age like 10m, or a time like 2026-01-02T15:04:05Z")
	f.StringVar(&q.Kind, "kind", "", "only of this kind, like 'lease_*'")
	f.StringVar(&node, "node", "", "only those that this host wrote")
	return cmd
}

func parseSince(s string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, usagef("--since: %q is neither an age like 10m nor a time like 2026-01-02T15:04:05Z", s)
	}
	return t, nil
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
	headed, seen := false, false
	err = c.Events(ctx, q, api.FollowOptions{Retry: func(cause error) error {
		if _, away := cause.(*api.UnreachableError); away && !seen { //nolint:errorlint // the first dial's own error
			return cause
		}
		if seen {
			a.note("waiting for the daemon: %s", cause)
		}
		seen = true
		return nil
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
	if a.output == "tsv" {
		writeTSV(a.out, table{head: []string{"TIME", "NODE", "INC", "SEQ", "TERM", "KIND", "HASH", "BODY"}})
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
	case "tsv":
		_, err := fmt.Fprintln(a.out, strings.Join([]string{
			stamp(e.Time), string(e.Source.Node), strconv.FormatUint(e.Source.Inc, 10), strconv.FormatUint(e.Seq, 10),
			strconv.FormatUint(uint64(e.Term), 10), string(e.Kind), e.Hash.String(), string(e.Body),
		}, "\t"))
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
