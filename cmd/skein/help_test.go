package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/cmd/skein/cli"
)

// TestHelpFits: help has at most 80 columns, on a narrow terminal fewer, and every
// command is in a group.
func TestHelpFits(t *testing.T) {
	for _, width := range []int{0, 200, 60} {
		a := &cli.App{}
		a.OutWidth = width
		root := newRoot(a, deps{})
		var walk func(*cobra.Command)
		walk = func(cmd *cobra.Command) {
			var out bytes.Buffer
			a.WriteHelp(&out, cmd)
			for line := range strings.Lines(out.String()) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
					t.Errorf("%s: %d columns: %s", cmd.CommandPath(), n, line)
				}
			}
			if cmd.Parent() == root && cmd.GroupID == "" && cmd.Name() != "help" && cmd.Name() != "completion" {
				t.Errorf("%s is in no group", cmd.CommandPath())
			}
			for _, sub := range cmd.Commands() {
				walk(sub)
			}
		}
		walk(root)
	}
}

// TestEventsOnTerminal: one line an event, which is cut, and the day when it changes;
// a pipe gets whole lines.
func TestEventsOnTerminal(t *testing.T) {
	f := started(t)
	_, out, errs := inProcess(t, f, cli.Terminal{OutWidth: 40, ErrWidth: 40}, "events")
	want := "Friday 2 January 2026, UTC\n" +
		"02:54:05  n1    n1 started, version 1.4…\n" +
		"02:55:05  n2    term 42: n2 holds the l…\n" +
		"02:56:05  n1    n1 gave up the lease of…\n"
	if out != want {
		t.Errorf("%s%s\nwant\n%s", out, errs, want)
	}
	if _, out, _ := inProcess(t, f, cli.Terminal{}, "events"); !strings.Contains(out, "granted by n1, n2 of 3 voters, after n1\n") {
		t.Errorf("a pipe gets %s", out)
	}
}

// TestDoctorOnTerminal: what to do about it is read without scrolling aside.
func TestDoctorOnTerminal(t *testing.T) {
	f := started(t)
	f.set(func() { f.state = "degraded" })
	_, out, _ := inProcess(t, f, cli.Terminal{OutWidth: 50, Env: []string{"NO_COLOR=1"}}, "doctor")
	lines := 0
	for line := range strings.Lines(out) {
		lines++
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 50 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	_, piped, _ := inProcess(t, f, cli.Terminal{}, "doctor")
	if strings.Count(piped, "\n") >= lines || !strings.Contains(out, "hint:") {
		t.Errorf("%s\npiped\n%s", out, piped)
	}
}
