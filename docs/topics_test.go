package docs

import (
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster/event"
)

// TestTopics: each kind of event has its topic, and no topic is empty or carries the
// headline of another.
func TestTopics(t *testing.T) {
	count := map[string]int{}
	texts := map[string]string{}
	for _, x := range Topics() {
		count[x.Kind]++
		texts[x.Kind+" "+x.Name] = x.Text
		if x.Name == "" || strings.TrimSpace(x.Text) == "" {
			t.Errorf("%+v", x)
		}
		if x.Kind != Guide && strings.Contains(x.Text, "\n#") {
			t.Errorf("%s %s runs into the next: %q", x.Kind, x.Name, x.Text)
		}
	}
	for _, k := range event.KindTable() {
		if !strings.Contains(texts[Event+" "+string(k.Kind)], k.Meaning+".") {
			t.Errorf("%s: %q", k.Kind, texts[Event+" "+string(k.Kind)])
		}
	}
	if count[Event] != len(event.KindTable()) || count[Alert] == 0 || count[Check] == 0 || count[Metric] == 0 || count[Guide] == 0 {
		t.Errorf("%v", count)
	}
	if text := texts[Guide+" voters"]; !strings.Contains(text, "skein lease voters") || strings.Contains(text, "## Modes") {
		t.Errorf("%q", text)
	}
	if text := texts[Guide+" further-hosts"]; !strings.Contains(text, "# on a sponsor") {
		t.Errorf("a comment in code ends a section: %q", text)
	}
}
