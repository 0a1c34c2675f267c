package local

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/skein-project/skein/docs"
	"github.com/skein-project/skein/docs/topics"
)

// TestTopicsFit: every topic has a text, and all but sections of the handbook, which may
// have tables and addresses that are wider, fit a terminal of 80 columns.
func TestTopicsFit(t *testing.T) {
	all := topics.All()
	if len(all) < 300 {
		t.Errorf("%d topics", len(all))
	}
	for _, x := range all {
		var out strings.Builder
		writeMarkdown(&out, x.Text, 80)
		if strings.TrimSpace(out.String()) == "" || !strings.HasPrefix(x.Doc, "docs/") {
			t.Errorf("%s %s of %s has no text", x.Kind, x.Name, x.Doc)
		}
		for line := range strings.Lines(out.String()) {
			if x.Kind == docs.Guide {
				break
			}
			if utf8.RuneCountInString(line) > 81 && strings.Contains(line, " ") && !strings.HasPrefix(line, "    ") && !strings.Contains(line, "docs/") && !strings.Contains(line, "`") {
				t.Errorf("%s: %q", x.Name, line)
			}
		}
	}
}
