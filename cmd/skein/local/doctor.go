package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/present"
)

func doctorCommand(a *cli.App, d Options) *cobra.Command {
	var pre bool
	cmd := &cobra.Command{
		Use: "doctor", Short: "Find out what is wrong, and what to do about it",
		Long: "Examines the configuration, this host and, through its daemon, the mesh and the\n" +
			"cluster. With --pre no daemon is asked: use it before the first start. Exits 0 if all\n" +
			"is well, 6 after a warning, 1 after a failure. Of a host that is asked over the\n" +
			"network, only its daemon examines anything.",
		Args: cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return diagnose(a, cmd, d, pre) },
	}
	cli.AddSettings(cmd.Flags())
	cmd.Flags().BoolVar(&pre, "pre", false, "do not ask the daemon")
	return cmd
}

func diagnose(a *cli.App, cmd *cobra.Command, d Options, pre bool) error {
	cfg, err := a.Settings(cmd)
	usable := err == nil
	if err != nil {
		cfg = config.Default()
	}
	elsewhere := !pre && a.Elsewhere()
	var list []api.Finding
	if !elsewhere {
		list = append(list, configFinding(err))
	}
	answered, unasked, header := false, false, api.NewHeader(cfg.Node.Name, time.Now(), 0)
	if !pre {
		got, err := askDoctor(a, cmd)
		if answered = err == nil; answered {
			header = got.Header
		}
		_, refused := errors.AsType[*api.Problem](err)
		unasked = refused || errors.Is(err, fs.ErrPermission)
		list = append(list, daemonFinding(a, cmd, err))
		list = append(list, got.Findings...)
	}
	// The daemon examines its own host best: with its rights, in its namespaces.
	switch {
	case answered:
	case elsewhere:
		list = append(list, api.Finding{
			Group: "host", Check: "host", Verdict: api.VerdictSkip,
			Detail: "another machine was asked, and its configuration is not here: run `skein doctor` there",
		})
	case usable:
		list = append(list, d.Doctor(cmd.Context(), cfg, unasked)...)
	default:
		list = append(list, api.Finding{
			Group: "host", Check: "host", Verdict: api.VerdictSkip, Detail: "the configuration cannot be read",
		})
	}
	a.Code = doctorCode(list)
	return a.Show(cli.View{
		Body:  api.Doctor{Header: header, Findings: list},
		Items: cli.Items(list),
		Page:  func(w io.Writer) { doctorPage(a, w, list) },
		Table: func() present.Table { return present.Findings(list) },
	})
}

func askDoctor(a *cli.App, cmd *cobra.Command) (d api.Doctor, err error) {
	c, err := a.Client()
	if err != nil {
		return d, err
	}
	defer c.Close()
	ctx, cancel := a.Limited(cmd.Context())
	defer cancel()
	for {
		d, err := c.Doctor(ctx)
		if !api.IsCode(err, api.CodeOverloaded) {
			return d, err
		}
		select { // somebody else asked: that takes seconds at most
		case <-ctx.Done():
			return d, err
		case <-time.After(cli.PollPause):
		}
	}
}

func configFinding(err error) api.Finding {
	f := api.Finding{Group: "host", Check: "config-parse", Verdict: api.VerdictOK, Detail: "file, environment and flags are good"}
	if err != nil {
		f.Verdict, f.Detail, f.Hint = api.VerdictFail, err.Error(), "see `skein config check`"
		if own, ok := errors.AsType[*cli.Error](err); ok {
			f.Hint = own.Advice
		}
		if faults, ok := errors.AsType[config.Errors](err); ok {
			f.Detail, f.Hint = faults[0].Error(), faults[0].Hint
		}
	}
	return f
}

func daemonFinding(a *cli.App, cmd *cobra.Command, err error) api.Finding {
	f := api.Finding{Group: "host", Check: "daemon", Verdict: api.VerdictOK, Detail: "answers"}
	if err != nil {
		_, msg, hint := a.Classify(cmd.Context(), err)
		f.Verdict, f.Detail, f.Hint = api.VerdictFail, msg, hint
	}
	return f
}

func doctorCode(list []api.Finding) int {
	code := cli.ExitOK
	for _, f := range list {
		switch f.Verdict {
		case api.VerdictFail:
			return cli.ExitFailed
		case api.VerdictWarn:
			code = cli.ExitDegraded
		}
	}
	return code
}

// doctorPage groups the findings and tells what to do about each bad one.
func doctorPage(a *cli.App, w io.Writer, list []api.Finding) {
	var groups []string
	counts := map[api.Verdict]int{}
	width := 0
	for _, f := range list {
		if !slices.Contains(groups, f.Group) {
			groups = append(groups, f.Group)
		}
		counts[f.Verdict]++
		width = max(width, len(f.Check))
	}
	for _, g := range groups {
		fmt.Fprintln(w, g)
		for _, f := range list {
			if f.Group == g {
				doctorLine(a, w, f, width)
			}
		}
	}
	fmt.Fprintf(w, "%d ok, %d warn, %d fail, %d skipped\n",
		counts[api.VerdictOK], counts[api.VerdictWarn], counts[api.VerdictFail], counts[api.VerdictSkip])
}

func doctorLine(a *cli.App, w io.Writer, f api.Finding, width int) {
	verdict := fmt.Sprintf("%-4s", f.Verdict)
	if a.Colored() {
		verdict = present.Paint(string(f.Verdict)) + verdict[len(f.Verdict):]
	}
	// A terminal gets lines that end between words, a pipe each thing in one line.
	lead := strings.Repeat(" ", width+10)
	text := func(s string, used int) string {
		return cli.Wrap(present.Plain(s), a.OutWidth-min(used, a.OutWidth), lead[:used])
	}
	fmt.Fprintf(w, "  %s  %-*s  %s\n", verdict, width, f.Check, text(f.Detail, width+10))
	if f.Verdict != api.VerdictWarn && f.Verdict != api.VerdictFail {
		return
	}
	if f.Hint != "" {
		fmt.Fprintf(w, "        hint: %s\n", text(f.Hint, 14))
	}
	if f.Doc != "" {
		fmt.Fprintf(w, "        see:  %s\n", f.Doc)
	}
}
