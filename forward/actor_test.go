package forward

import (
	"strings"
	"testing"
)

// TestActorOf believes of another host only who on it asked, and not much of
// that.
func TestActorOf(t *testing.T) {
	for in, want := range map[string]string{
		"uid:0":                   "uid:0@n2",
		"uid:0@n1":                "uid:0@n2",
		"@n1":                     "?@n2",
		"":                        "?@n2",
		"uid:0\n\x1b[2J\u202e x":  "uid:0??[2J??x@n2",
		strings.Repeat("a", 1e6):  strings.Repeat("a", maxActor) + "@n2",
		"root@n1@n1 (truly) uid:": "root@n2",
	} {
		if got := actorOf("n2", in, false); got != want {
			t.Errorf("%.80q is %.80q, want %.80q", in, got, want)
		}
	}
	if got := actorOf("n2", "uid:7@n1", Submit.Owner); got != "uid:7" {
		t.Errorf("the owner of a job is %q: the same key would be another job on each host", got)
	}
}
