package docs

import (
	_ "embed" // the pages
	"regexp"
	"strings"
)

//go:embed events.md
var events string

//go:embed metrics.md
var metrics string

//go:embed operations.md
var operations string

// What a topic is about.
const (
	Event  = "event"
	Alert  = "alert"
	Check  = "check"
	Metric = "metric"
	Guide  = "guide" // a section on how to operate a cluster
)

// Topic is something that is explained.
type Topic struct {
	Name string // as it is asked for
	Kind string
	Doc  string // where it stands: docs/events.md#term_start
	Text string // Markdown, without its headline
}

// Topics lists all of them, in the order of the pages.
func Topics() []Topic {
	var out []Topic
	for title, text := range sections(events, "## ") {
		out = append(out, Topic{Name: title, Kind: Event, Doc: "docs/events.md#" + title, Text: text})
	}
	about := summaries(events)
	for i, t := range out {
		out[i].Text = about[t.Name] + "\n\n" + t.Text
	}
	for title, text := range sections(operations, "### ") {
		kind := Check
		if strings.HasPrefix(title, "Skein") {
			kind = Alert
		}
		out = append(out, Topic{Name: title, Kind: kind, Doc: "docs/operations.md#" + Slug(title), Text: text})
	}
	for line := range strings.Lines(metrics) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 5 || !strings.HasPrefix(cells[1], " `skein_") {
			continue
		}
		name := strings.Trim(cells[1], " `")
		text := strings.TrimSpace(strings.Join(cells[3:len(cells)-1], "|"))
		if labels := strings.TrimSpace(cells[2]); labels != "-" {
			text += " Labels: " + labels + "."
		}
		out = append(out, Topic{Name: name, Kind: Metric, Doc: "docs/metrics.md", Text: text})
	}
	for title, text := range sections(operations, "## ") {
		out = append(out, Topic{Name: Slug(title), Kind: Guide, Doc: "docs/operations.md#" + Slug(title), Text: text})
	}
	return out
}

// sections yields the sections of a page with that mark of a headline, each up to the
// next headline of the same level or a higher one.
func sections(page, mark string) func(yield func(title, text string) bool) {
	return func(yield func(title, text string) bool) {
		var title string
		var text strings.Builder
		code := false
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, "```") {
				code = !code
			}
			level, _, _ := strings.Cut(line, " ")
			ends := !code && level != "" && strings.Trim(level, "#") == "" && len(level) < len(mark)
			if !ends {
				text.WriteString(line)
				continue
			}
			if title != "" && !yield(title, strings.TrimSpace(text.String())) {
				return
			}
			text.Reset()
			title = ""
			if rest, ok := strings.CutPrefix(line, mark); ok {
				title = strings.TrimSpace(rest)
			}
		}
		if title != "" {
			yield(title, strings.TrimSpace(text.String()))
		}
	}
}

var row = regexp.MustCompile("(?m)^\\| \\[`([a-z_]+)`\\]\\([^)]*\\) \\| (\\S+) \\| ([^|]*) \\| (.*) \\|$")

// summaries are the sentences of the table at the head of events.md.
func summaries(page string) map[string]string {
	out := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(page, -1) {
		out[m[1]] = "Written by " + m[3] + ": " + m[4] + "."
		if m[2] == "yes" {
			out[m[1]] += " It exercises the lease."
		}
	}
	return out
}

var unlinked = regexp.MustCompile(`[^a-z0-9 _-]`)

// Slug is how a headline is linked to.
func Slug(title string) string {
	return strings.ReplaceAll(unlinked.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
}
