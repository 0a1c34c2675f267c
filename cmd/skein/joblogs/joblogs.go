package joblogs

import (
	"context"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

// Command is `skein job logs`.
func Command(a *cli.App) *cobra.Command {
	var q api.JobLogQuery
	var chunk int
	cmd := &cobra.Command{
		Use: "logs ID", Short: "What the attempts at a job's chunks wrote to standard error", Args: cli.Exactly(1, "the id or the name of a job"),
		Long: "As far as the hosts that ran them keep it: the first 16 and the last 48 KiB of each attempt\n" +
			"that failed, or with `logs = \"all\"` in the job of each. Of the first 64 failures the cluster\n" +
			"keeps 16 KiB that outlive the hosts. With --follow it goes on with what running attempts\n" +
			"write, until the job has ended. Control characters are shown as \\x1b on a terminal.",
		Example: "  skein job logs jabc --failed\n" +
			"  skein job logs jabc --chunk 7 --attempt 2\n" +
			"  skein job logs jabc -f -o jsonl",
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("chunk") {
				q.Chunk = &chunk
			}
			if chunk < 0 || q.Attempt < 0 {
				return cli.Usagef("chunks are counted from 0, attempts from 1")
			}
			if a.Output == "json" && q.Follow {
				return cli.Usagef("one JSON value cannot be followed").WithHint("use -o jsonl: one value in each line")
			}
			return logs(a, cmd.Context(), args[0], q)
		},
	}
	cmd.Flags().IntVar(&chunk, "chunk", 0, "of this chunk, from 0")
	cmd.Flags().IntVar(&q.Attempt, "attempt", 0, "of the attempts with this number, from 1")
	cmd.Flags().BoolVar(&q.Failed, "failed", false, "of attempts that failed")
	cmd.Flags().BoolVarP(&q.Follow, "follow", "f", false, "go on until the job has ended")
	return cmd
}

func logs(a *cli.App, ctx context.Context, id string, q api.JobLogQuery) error {
	c, err := a.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	w := logWriter{out: a.Out, terminal: a.OutWidth > 0}
	some := false
	err = c.JobLogs(ctx, id, q, func(l api.JobLog) error {
		if l.Problem != "" {
			a.Note("%s does not tell: %s", l.Worker, present.Plain(l.Problem))
			return nil
		}
		first := !some
		some = true
		if done, err := a.Element(l, first); done {
			return err
		}
		return w.write(l)
	})
	if a.Output == "json" && err == nil {
		err = a.EndArray(some)
	}
	switch {
	case q.Follow && ctx.Err() != nil:
		a.Code = cli.ExitInterrupted
		return nil
	case err == nil && !some:
		a.Note("nothing is kept of attempts that were asked for")
	}
	return err
}

// logWriter writes logs for people: each attempt, or piece of one that others stand
// between, under a line that names it.
type logWriter struct {
	out      io.Writer
	terminal bool
	last     string // the attempt whose words were written last
	begun    bool   // something was written
	inLine   bool   // the last line has no end yet
}

func (w *logWriter) write(l api.JobLog) error {
	var b strings.Builder
	name := fmt.Sprintf("chunk %d attempt %d on %s", l.Chunk, l.Attempt, l.Worker)
	if name != w.last || !l.More {
		w.end(&b)
		if w.begun {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "==> %s%s <==\n", name, how(l))
		w.last, w.begun = name, true
	}
	if l.Left > 0 {
		w.end(&b)
		fmt.Fprintf(&b, "[%d bytes are left out here]\n", l.Left)
	}
	text := l.Text
	if w.terminal {
		text = shown(text)
	}
	b.WriteString(text)
	if text != "" {
		w.inLine = !strings.HasSuffix(text, "\n")
	}
	if !l.Running {
		w.end(&b)
		if l.More && l.Error != "" {
			fmt.Fprintf(&b, "==> %s failed: %s <==\n", name, reason(l))
		}
	}
	_, err := io.WriteString(w.out, b.String())
	return err
}

func (w *logWriter) end(b *strings.Builder) {
	if w.inLine {
		b.WriteByte('\n')
		w.inLine = false
	}
}

// how says how an attempt went.
func how(l api.JobLog) string {
	out := ""
	if l.Seconds > 0 {
		out = ", " + present.Age(l.Seconds)
	}
	switch {
	case l.Running:
		out += ", running"
	case l.Error != "":
		out += ": " + reason(l)
	}
	if l.Short {
		out += " (its host is gone, or does not keep it any more)"
	}
	return out
}

// reason is why an attempt failed, without the words that stand below it.
func reason(l api.JobLog) string {
	why, _, _ := strings.Cut(l.Error, "; standard error: ")
	return present.Plain(why)
}

// shown is text with its control characters spelt out: what a job writes is not to move
// the cursor, or worse.
func shown(text string) string {
	clean := func(r rune) bool { return r == '\n' || r == '\t' || unicode.IsPrint(r) }
	if strings.IndexFunc(text, func(r rune) bool { return !clean(r) }) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range strings.ReplaceAll(text, "\r\n", "\n") {
		switch {
		case clean(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, "\\x%02x", r)
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}
