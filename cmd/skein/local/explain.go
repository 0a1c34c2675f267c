package local

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/docs"
	"github.com/skein-project/skein/docs/topics"
	"github.com/skein-project/skein/present"
)

func explainCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "explain [TOPIC]", Short: "What an event, alert, check, metric, key or exit code means",
		Long: "Explains a kind of event, an alert, a check of doctor, a metric, a key of the\n" +
			"configuration or an exit code, or shows a section of docs/operations.md. Without a\n" +
			"topic it lists all of them. No daemon is asked.",
		Args: cli.AtMostOne("topic"),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listTopics(a)
			}
			return explain(a, args[0])
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			var words []string
			for _, t := range topics.All() {
				if len(args) == 0 && strings.HasPrefix(t.Name, typed) {
					words = append(words, t.Name+"\t"+t.Kind)
				}
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

func explain(a *cli.App, word string) error {
	all := topics.All()
	found := topics.Named(all, word)
	if len(found) == 0 {
		e := cli.Failf(cli.ExitNotFound, "nothing is called %q", word)
		names := make([]string, len(all))
		for i, t := range all {
			names[i] = t.Name
		}
		if near := cli.Nearest(word, names); near != "" {
			return e.WithHint("did you mean `skein explain %s`?", near)
		}
		return e.WithHint("`skein explain` lists what there is")
	}
	return a.Show(topicsView(found, func(w io.Writer) {
		for i, t := range found {
			if i > 0 {
				fmt.Fprintln(w)
			}
			fmt.Fprintf(w, "%s (%s, %s)\n\n", t.Name, t.Kind, t.Doc)
			writeMarkdown(w, t.Text, min(a.OutWidth, 100))
		}
	}))
}

func listTopics(a *cli.App) error { return a.Show(topicsView(topics.All(), nil)) }

func topicsView(list []docs.Topic, page func(io.Writer)) cli.View {
	type topic struct {
		Name string `json:"name"`
		Kind string `json:"kind"`
		Doc  string `json:"doc"`
		Text string `json:"text"`
	}
	body := struct {
		Topics []topic `json:"topics"`
	}{}
	t := present.NewTable("TOPIC", "KIND", "DOC")
	for _, x := range list {
		body.Topics = append(body.Topics, topic(x))
		t.Add(x.Name, x.Kind, x.Doc)
	}
	return cli.View{Body: body, Items: cli.Items(body.Topics), Page: page, Table: func() present.Table { return t }}
}

// plainText is a line of Markdown for the terminal: a link to a section says how to
// read it here.
func plainText(s string) string {
	return topics.Unlinked(s, func(section string) string { return "`skein explain " + section + "`" })
}

// writeMarkdown writes a section as wide as the terminal; width 0 or less: paragraphs
// are lines.
func writeMarkdown(w io.Writer, text string, width int) {
	for _, p := range topics.Parse(text) {
		switch p.Is {
		case topics.Code:
			fmt.Fprintln(w, "    "+strings.ReplaceAll(p.Text, "\n", "\n    "))
		case topics.Head:
			fmt.Fprintln(w, p.Text)
		case topics.Table:
			writeRows(w, p.Rows, width)
		default:
			fmt.Fprintln(w, cli.Wrap(plainText(p.Text), width, strings.Repeat(" ", len(topics.ItemMark(p.Text)))))
		}
		fmt.Fprint(w, strings.Repeat("\n", p.Gap))
	}
}

// writeRows writes the rows of a table, the last cell of each as wide as there is room.
func writeRows(w io.Writer, table [][]string, width int) {
	var wide []int
	for _, row := range table {
		for j, c := range row {
			row[j] = plainText(c)
			if j == len(row)-1 {
				break
			}
			row[j] = strings.ReplaceAll(row[j], "`", "")
			if j == len(wide) {
				wide = append(wide, 0)
			}
			wide[j] = max(wide[j], utf8.RuneCountInString(row[j]))
		}
	}
	for _, row := range table {
		var b strings.Builder
		b.WriteByte(' ')
		for j, c := range row[:len(row)-1] {
			fmt.Fprintf(&b, " %-*s ", wide[j], c)
		}
		head := b.String()
		room := 0
		if width > 0 {
			room = max(20, width-utf8.RuneCountInString(head)-1)
		}
		last := strings.ReplaceAll(cli.Wrap(row[len(row)-1], room, ""), "\n", "\n"+strings.Repeat(" ", utf8.RuneCountInString(head)+1))
		fmt.Fprintln(w, strings.TrimRight(head+" "+last, " "))
	}
}
