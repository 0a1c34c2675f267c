package token

import (
	"bytes"
	"testing"

	"github.com/skein-project/skein/cluster"
)

// TestEphemeral: every host of the cluster tells an invite for ephemeral hosts from others, and
// whose it is.
func TestEphemeral(t *testing.T) {
	secret, other := bytes.Repeat([]byte{1}, SecretLen), bytes.Repeat([]byte{2}, SecretLen)
	sponsors := []cluster.NodeID{"n1", "n2"}
	usual, come := NewID(secret, "n2"), NewEphemeralID(secret, "n2")
	for _, id := range []string{usual, come} {
		if who, ok := SponsorOf(secret, id, sponsors); !ok || who != "n2" || !Valid(id) {
			t.Errorf("%s: of %s", id, who)
		}
	}
	if Ephemeral(secret, usual, "n2") || !Ephemeral(secret, come, "n2") || Ephemeral(secret, come, "n1") || Ephemeral(other, come, "n2") || Ephemeral(secret, "", "n2") {
		t.Error("ephemeral or not")
	}
}
