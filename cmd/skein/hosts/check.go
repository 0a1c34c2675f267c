package hosts

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

// Exit codes of check, as monitoring systems want them.
const (
	checkOK = iota
	checkWarning
	checkCritical
	checkUnknown
)

func checkCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: CheckName, Short: "One line and an exit code for monitoring", Args: cli.Exactly(0, ""),
		Long: "Exits 0 if all is well, 1 if something is degraded or publishing has failed for ten\n" +
			"minutes, 2 if nobody holds the lease or\n" +
			"no more than half of the members are alive, 3 if the daemon does not answer.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				s, raw, err := cli.Fetch[api.Status](ctx, c, "/v1/status")
				if err != nil {
					return err
				}
				code, line := judge(s)
				a.Code = code
				return a.Show(cli.View{
					Raw:  raw,
					Page: func(w io.Writer) { fmt.Fprintln(w, line) },
					Table: func() present.Table {
						t := present.NewTable("VERDICT", "NODE", "ALIVE", "MEMBERS", "TERM", "REASONS")
						verdict, _, _ := strings.Cut(line, ":")
						t.Add(verdict, string(s.Node), fmt.Sprint(s.Members.Alive), fmt.Sprint(s.Members.Total),
							present.TermOf(uint64(s.Term)), present.OrDash(strings.Join(s.Reasons, "; ")))
						return t
					},
				})
			})
		},
	}
}

// CheckName is the command whose exit codes are those of a monitoring plugin.
const CheckName = "check"

// judge gives the exit code of check and its line.
func judge(s api.Status) (int, string) {
	what := s.Reasons
	code, word := checkOK, "OK"
	switch {
	case s.Lease.Holder == "":
		code, word = checkCritical, "CRITICAL"
	case s.Members.Total > 2 && 2*s.Members.Alive <= s.Members.Total:
		code, word = checkCritical, "CRITICAL"
	case failsLong(s):
		code, word = checkWarning, "WARNING"
	case s.State != api.StateOK:
		code, word = checkWarning, "WARNING"
		if len(what) == 0 {
			what = []string{"the daemon is " + string(s.State)}
		}
	}
	if failsLong(s) {
		what = append(slices.Clip(what), "publish "+present.Publish(s.Publish, s.ObservedAt))
	}
	holder := "no holder"
	if s.Lease.Holder != "" {
		holder = "holder " + string(s.Lease.Holder)
	}
	parts := append(slices.Clip(what), fmt.Sprintf("%s %s", s.Node, present.OrDash(s.Role)), "term "+present.TermOf(uint64(s.Term)),
		holder, fmt.Sprintf("%d of %d alive", s.Members.Alive, s.Members.Total))
	if s.Publish.State == api.PublishOK {
		parts = append(parts, "publish "+present.Publish(s.Publish, s.ObservedAt))
	}
	return code, fmt.Sprintf("%s: %s | alive=%d members=%d term=%d", word, strings.Join(parts, ", "),
		s.Members.Alive, s.Members.Total, s.Term)
}

// failsLong reports whether publishing has failed for longer than the tries after a
// change take. What clients have is good for three hours.
func failsLong(s api.Status) bool {
	p := s.Publish
	return p.State == api.PublishFailing && p.FailingSince != nil && s.ObservedAt.Sub(*p.FailingSince) > 10*time.Minute
}

// CheckFailed is how check reports that it could not find out.
func CheckFailed(ctx context.Context, a *cli.App, err error) int {
	if a.Output == "json" || a.Output == "jsonl" {
		_, msg, hint := a.Classify(ctx, err)
		return a.Report(ctx, cli.Failf(checkUnknown, "%s", msg).WithHint("%s", hint))
	}
	fmt.Fprintf(a.Out, "UNKNOWN: %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
	return checkUnknown
}
