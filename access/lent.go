package access

import (
	"strings"
	"time"
)

// lentPrefix begins the text of every access token.
const lentPrefix = "skt_"

// IsLent reports that what is shown is meant as an access token: no other is like it.
func IsLent(text string) bool { return strings.HasPrefix(text, lentPrefix) }

// Lent is what an access token lends of a user's rights on the user's jobs. An operator made
// it, and may revoke it.
type Lent struct {
	ID   string // of the token
	User string // name
	// Submit is to submit and stop jobs, and to see them; Watch to see them.
	Submit, Watch bool
	Expires       time.Time
}

// Key names the token, as KeyID does a key: its text without the secret.
func (l Lent) Key() string { return lentPrefix + l.ID }

// Lacks names the role that a token would need to change something, or only to see it;
// empty: it has it.
func (l Lent) Lacks(change bool) (lacks string) {
	switch {
	case l.Submit, l.Watch && !change:
		return ""
	case change:
		return "submit"
	}
	return "watch"
}

// Role is what somebody may with the token of a user of this role: never more than a
// submitter.
func (l Lent) Role(had Role) Role { return min(had, Submitter) }
