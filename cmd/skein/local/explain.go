package local

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/docs"
	"github.com/skein-project/skein/present"
)

// Kinds of topics that the pages do not have.
const (
	keyTopic  = "key"
	exitTopic = "exit code"
)

func explainCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "explain [TOPIC]", Short: "What a word of skein means, and what to do about it",
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
			for _, t := range topics() {
				if len(args) == 0 && strings.HasPrefix(t.Name, typed) {
					words = append(words, t.Name+"\t"+t.Kind)
				}
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// topics are those of the pages, the keys and the exit codes.
func topics() []docs.Topic {
	out := docs.Topics()
	for _, k := range config.Keys() {
		applied := "takes a restart"
		if k.Live {
			applied = "applied by a reload"
		}
		out = append(out, docs.Topic{Name: k.Name, Kind: keyTopic, Doc: "docs/config.md", Text: fmt.Sprintf(
			"%s\n\n| | |\n|---|---|\n| Default | %s |\n| Environment | %s |\n| A change | %s |", strings.Join(k.Doc, "\n"), k.Default, k.Env, applied)})
	}
	for _, e := range cli.Exits() {
		text := e.Text + "."
		if e.Code <= 3 {
			text += "\n\n" + cli.CheckExits
		}
		out = append(out, docs.Topic{Name: fmt.Sprint(e.Code), Kind: exitTopic, Doc: "docs/cli.md", Text: text})
	}
	return out
}

// named are the topics that a word means: a name in whatever case, an alert without its
// first syllable, a series of a metric, the variable of a key.
func named(all []docs.Topic, word string) []docs.Topic {
	word = strings.ToLower(word)
	series := word
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		series = strings.TrimSuffix(series, suffix)
	}
	return slices.DeleteFunc(slices.Clone(all), func(t docs.Topic) bool {
		name := strings.ToLower(t.Name)
		switch t.Kind {
		case docs.Alert:
			return name != word && name != "skein"+word
		case docs.Metric:
			return name != word && name != series
		case keyTopic:
			return name != word && strings.ToLower(config.Env(t.Name)) != word
		}
		return name != word
	})
}

func explain(a *cli.App, word string) error {
	all := topics()
	found := named(all, word)
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

func listTopics(a *cli.App) error { return a.Show(topicsView(topics(), nil)) }

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

var item = regexp.MustCompile(`^(-|[0-9]+\.) `)

var link = regexp.MustCompile(`\[([^][]+)\]\(([^()\s]+)\)`)

// plainText is a line of Markdown for the terminal: a link to a section says how to
// read it here.
func plainText(s string) string {
	s = link.ReplaceAllStringFunc(s, func(l string) string {
		m := link.FindStringSubmatch(l)
		if section, ok := strings.CutPrefix(m[2], "#"); ok {
			return m[1] + " (`skein explain " + section + "`)"
		}
		if m[1] == m[2] {
			return "docs/" + m[2]
		}
		return m[1] + " (" + m[2] + ")"
	})
	return strings.ReplaceAll(s, "**", "")
}

// writeMarkdown writes a section as wide as the terminal; width 0 or less: paragraphs
// are lines.
func writeMarkdown(w io.Writer, text string, width int) {
	var paragraph []string
	var table [][]string
	flush := func() {
		if len(paragraph) > 0 {
			indent := ""
			if m := item.FindString(paragraph[0]); m != "" {
				indent = strings.Repeat(" ", len(m))
			}
			fmt.Fprintln(w, cli.Wrap(plainText(strings.Join(paragraph, "\n")), width, indent))
		}
		writeRows(w, table, width)
		paragraph, table = nil, nil
	}
	code := false
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			flush()
			code = !code
		case code:
			fmt.Fprintln(w, "    "+line)
		case line == "":
			flush()
			fmt.Fprintln(w)
		case strings.HasPrefix(line, "#"):
			flush()
			fmt.Fprintln(w, strings.TrimLeft(line, "# "))
		case strings.HasPrefix(line, "|"):
			if len(paragraph) > 0 {
				flush()
			}
			cells := strings.Split(strings.Trim(strings.ReplaceAll(line, `\|`, "\x00"), "| "), "|")
			for i, c := range cells {
				cells[i] = plainText(strings.ReplaceAll(strings.TrimSpace(c), "\x00", "|"))
				if i < len(cells)-1 {
					cells[i] = strings.ReplaceAll(cells[i], "`", "")
				}
			}
			table = append(table, cells)
		case item.MatchString(line):
			flush()
			paragraph = append(paragraph, line)
		default:
			paragraph = append(paragraph, strings.TrimSpace(line))
		}
	}
	flush()
}

// writeRows writes the rows of a table, the last cell of each as wide as there is room.
func writeRows(w io.Writer, table [][]string, width int) {
	var wide []int
	for i, row := range table {
		if i == 1 { // below the names of the columns
			continue
		}
		for j, c := range row[:len(row)-1] {
			if j == len(wide) {
				wide = append(wide, 0)
			}
			wide[j] = max(wide[j], utf8.RuneCountInString(c))
		}
	}
	for i, row := range table {
		if i == 1 || strings.Join(row, "") == "" {
			continue
		}
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
