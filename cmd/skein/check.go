package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
)

// Exit codes of check, as monitoring systems want them.
const (
	checkOK = iota
	checkWarning
	checkCritical
	checkUnknown
)

func (a *app) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use: checkName, Short: "One line and an exit code for monitoring", Args: exactly(0, ""),
		Long: "Exits 0 if all is well, 1 if something is degraded, 2 if nobody holds the lease or\n" +
			"no more than half of the members are alive, 3 if the daemon does not answer.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				s, raw, err := fetch[api.Status](ctx, c, "/v1/status")
				if err != nil {
					return err
				}
				code, line := judge(s)
				a.code = code
				return a.show(view{
					raw:  raw,
					page: func(w io.Writer) { fmt.Fprintln(w, line) },
					table: func(form) table {
						t := table{head: []string{"VERDICT", "NODE", "ALIVE", "MEMBERS", "TERM", "REASONS"}}
						verdict, _, _ := strings.Cut(line, ":")
						t.add(verdict, string(s.Node), fmt.Sprint(s.Members.Alive), fmt.Sprint(s.Members.Total),
							termOf(uint64(s.Term)), orDash(strings.Join(s.Reasons, "; ")))
						return t
					},
				})
			})
		},
	}
}

const checkName = "check"

// judge gives the exit code of check and its line.
func judge(s api.Status) (int, string) {
	what := s.Reasons
	code, word := checkOK, "OK"
	switch {
	case s.Lease.Holder == "":
		code, word = checkCritical, "CRITICAL"
	case s.Members.Total > 2 && 2*s.Members.Alive <= s.Members.Total:
		code, word = checkCritical, "CRITICAL"
	case s.State != api.StateOK:
		code, word = checkWarning, "WARNING"
		if len(what) == 0 {
			what = []string{"the daemon is " + string(s.State)}
		}
	}
	holder := "no holder"
	if s.Lease.Holder != "" {
		holder = "holder " + string(s.Lease.Holder)
	}
	parts := append(slices.Clip(what), fmt.Sprintf("%s %s", s.Node, orDash(s.Role)), "term "+termOf(uint64(s.Term)),
		holder, fmt.Sprintf("%d of %d alive", s.Members.Alive, s.Members.Total))
	return code, fmt.Sprintf("%s: %s | alive=%d members=%d term=%d", word, strings.Join(parts, ", "),
		s.Members.Alive, s.Members.Total, s.Term)
}

// checkFailed is how check reports that it could not find out.
func (a *app) checkFailed(err error) int {
	fmt.Fprintf(a.out, "UNKNOWN: %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
	return checkUnknown
}
