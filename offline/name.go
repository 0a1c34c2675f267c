package offline

import (
	"crypto/rand"
	"encoding/base32"
	"strings"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/durable"
)

// nameRandom is how many random bytes, five bits a letter, stand for the "*" of a name.
const nameRandom = 5

// chooseName makes a name of a host of a pattern like "spot-*", for hosts that come and go:
// that of an earlier try to join, or a new one. Another name stays as it is.
func chooseName(dir string, pattern cluster.NodeID) cluster.NodeID {
	prefix, ok := strings.CutSuffix(string(pattern), "*")
	if !ok {
		return pattern
	}
	var f struct {
		Node cluster.NodeID `json:"node"`
	}
	if _, err := durable.PendingKeys.ReadJSON(dir, &f); err == nil && cluster.MatchHostName(pattern, f.Node) {
		return f.Node
	}
	var b [nameRandom]byte
	_, _ = rand.Read(b[:]) // never fails
	return cluster.NodeID(prefix + strings.ToLower(base32.StdEncoding.EncodeToString(b[:])))
}
