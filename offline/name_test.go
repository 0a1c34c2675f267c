package offline

import (
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/durable"
)

// TestChooseName: a pattern gives each host a name of its own, which an earlier try keeps.
func TestChooseName(t *testing.T) {
	dir := t.TempDir()
	if got := chooseName(dir, "n4"); got != "n4" {
		t.Errorf("%s", got)
	}
	a, b := chooseName(dir, "spot-*"), chooseName(dir, "spot-*")
	if _, err := cluster.ParseHostName(string(a)); a == b || err != nil || !cluster.MatchHostName("spot-*", a) {
		t.Errorf("%s and %s: %v", a, b, err)
	}
	err := durable.PendingKeys.WriteJSON(dir, map[string]string{"node": string(a)})
	if got := chooseName(dir, "spot-*"); err != nil || got != a {
		t.Errorf("%s, want %s: %v", got, a, err)
	}
	if got := chooseName(dir, "other-*"); got == a {
		t.Errorf("%s", got)
	}
}
