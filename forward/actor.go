package forward

import (
	"strings"

	"github.com/skein-project/skein/cluster"
)

// maxActor bounds the name of who asked on another host, in bytes.
const maxActor = 64

// actorName cleans up the name of an actor as another host gave it: the part
// of s before any "@", printable ASCII without blanks, never empty.
func actorName(s string) string {
	s, _, _ = strings.Cut(s[:min(len(s), maxActor)], "@")
	s = strings.Map(func(c rune) rune {
		if c <= ' ' || c > '~' {
			return '?'
		}
		return c
	}, s)
	if s == "" {
		return "?"
	}
	return s
}

// At names who asked, and on which host.
func At(actor string, host cluster.NodeID) string { return actor + "@" + string(host) }

// actorOf names the actor of a request that member from forwards. The host is
// always the authenticated one; only that host knows who on it asked. The owner
// of a job is recorded without a host.
func actorOf(from cluster.NodeID, actor string, owner bool) string {
	name := actorName(actor)
	if owner {
		return name
	}
	return At(name, from)
}

// userPrefix begins the names of users, who prove what they ask for.
const userPrefix = "user:"

// forged reports whether another host names a user as who asked. Requests of users
// travel by Carry.
func forged(actor string) bool { return strings.HasPrefix(actorName(actor), userPrefix) }
