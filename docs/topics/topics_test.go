package topics

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/docs"
)

// TestAll: every key and exit code is a topic beside those of the pages, and a word means
// what it is called by.
func TestAll(t *testing.T) {
	all := All()
	if want := len(docs.Topics()) + len(config.Keys()) + len(Exits()); len(all) != want {
		t.Errorf("%d topics, want %d", len(all), want)
	}
	for word, want := range map[string]string{
		"JOB_STOPPED": "event job_stopped", "NoHolder": "alert SkeinNoHolder", "SKEIN_STATUS_UI": "key status.ui", "status.ui": "key status.ui", "6": "exit code 6",
		"skein_eventlog_fsync_duration_seconds_bucket": "metric skein_eventlog_fsync_duration_seconds", "nothing": "", "": "",
	} {
		var got []string
		for _, x := range Named(all, word) {
			got = append(got, x.Kind+" "+x.Name)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%q means %q, want %q", word, got, want)
		}
	}
}

var fence = regexp.MustCompile("(?m)^```.*$")

// TestParse: what there is of Markdown in the pages comes apart, and nothing is lost.
func TestParse(t *testing.T) {
	got := Parse("a line\n  and [more](#clock)\n\n- one\n  on\n- two\n```\n- x\n\n  y\n```\n### Title\n| | b |\n|---|---|\n| `c` | d \\| e |\n\n| | |\n|--|--|\n| 1 | 2 |")
	want := []Part{
		{Is: Text, Text: "a line\nand [more](#clock)", Gap: 1},
		{Is: Item, Text: "- one\non"},
		{Is: Item, Text: "- two"},
		{Is: Code, Text: "- x\n\n  y"},
		{Is: Head, Text: "Title"},
		{Is: Table, Rows: [][]string{{"", "b"}, {"`c`", "d | e"}}, Gap: 1},
		{Is: Table, Rows: [][]string{{"1", "2"}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	for text, want := range map[string]string{
		"see [the clock](#clock)": "see the clock (<clock>)", "[web.md](web.md)": "docs/web.md", "[page](web.md)": "page (web.md)", "**so**": "so", "[a] (b)": "[a] (b)",
	} {
		if got := Unlinked(text, func(s string) string { return "<" + s + ">" }); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	for _, x := range All() {
		words := func(s string) int {
			return len(strings.FieldsFunc(s, func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz", r) }))
		}
		n := 0
		for _, p := range Parse(x.Text) {
			n += words(p.Text)
			for _, row := range p.Rows {
				n += words(strings.Join(row, " "))
			}
		}
		if n != words(fence.ReplaceAllString(x.Text, "")) {
			t.Errorf("%s %s: %d words of %d", x.Kind, x.Name, n, words(x.Text))
		}
	}
}
