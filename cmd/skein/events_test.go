package main

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cmd/skein/cli"
)

// numbered adds so many events to the three that there are; each says its number, the
// first is the fourth.
func numbered(f *fakeCluster, from, to int) {
	f.set(func() {
		for i := from; i <= to; i++ {
			f.addEvent("n1", event.KindHostStarted, fakeNow.Add(time.Duration(i)*time.Second), event.HostStarted{Version: fmt.Sprintf("0.0.%d", i)})
		}
	})
}

// numbers are the events of numbered that were shown, in that order; each may be told
// twice, as a sentence and as its body.
func numbers(out string) (list []string) {
	for _, m := range regexp.MustCompile(`\b0\.0\.(\d+)`).FindAllStringSubmatch(out, -1) {
		list = append(list, m[1])
	}
	return slices.Compact(list)
}

// upTo are the numbers from one to another.
func upTo(from, to int) (list []string) {
	for i := from; i <= to; i++ {
		list = append(list, fmt.Sprint(i))
	}
	return list
}

// TestEventsBegin: people get the last 200 events and hear that there are more, unless
// they say where to begin; programs get all.
func TestEventsBegin(t *testing.T) {
	f := started(t)
	numbered(f, 4, 300)
	for _, c := range []struct {
		args  string
		from  int
		noted bool
	}{
		{"", 101, true},
		{"-o wide", 101, true},
		{"-n 5", 296, false},
		{"--all", 4, false},
		{"-o wide --all", 4, false},
		{"--since 2026-01-02T03:04:05Z", 4, false},
		{"-o jsonl", 4, false},
		{"-o json", 4, false},
		{"-o tsv", 4, false},
		{"-o csv", 4, false},
		{"-o jsonl -n 5", 296, false},
	} {
		code, out, errs := inProcess(t, f, cli.Terminal{}, append([]string{"events"}, strings.Fields(c.args)...)...)
		if got := numbers(out); code != 0 || !slices.Equal(got, upTo(c.from, 300)) {
			t.Errorf("events %s: exit %d, %d events, %q %s", c.args, code, len(got), got, errs)
		}
		if noted := strings.Contains(errs, "these are the last 200: --all shows all"); noted != c.noted {
			t.Errorf("events %s: told that there are more: %t, %q", c.args, noted, errs)
		}
	}
}

// TestFollowBegins: -f shows the last ten and goes on with what comes then, unless one
// says where to begin.
func TestFollowBegins(t *testing.T) {
	for args, from := range map[string]int{"": 291, "-o wide": 291, "-n 3": 298, "--all": 4, "-o jsonl": 4} {
		f := started(t)
		numbered(f, 4, 300)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		// The last one that was there is shown: another one comes; that one is shown: enough.
		out := &hook{on: "0.0.300", do: func() { go numbered(f, 301, 301) }}
		last := &hook{on: "0.0.301", do: cancel}
		var errs bytes.Buffer
		code := execute(ctx, append([]string{"events", "-f"}, strings.Fields(args)...), cli.Terminal{
			In: strings.NewReader(""), Out: both{out, last}, Err: &errs, Env: []string{"SKEIN_SOCKET=" + f.socket},
		}, fakeDeps())
		cancel()
		if got := numbers(out.String()); code != 0 || !slices.Equal(got, upTo(from, 301)) {
			t.Errorf("events -f %s: exit %d, %q %s", args, code, got, errs.String())
		}
	}
}

// both is a writer to two hooks.
type both [2]*hook

func (b both) Write(p []byte) (int, error) {
	if n, err := b[0].Write(p); err != nil {
		return n, err
	}
	return b[1].Write(p)
}
