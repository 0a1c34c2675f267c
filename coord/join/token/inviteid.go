package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"github.com/skein-project/skein/cluster"
)

// An invite's id is 5 random bytes and 5 of their HMAC under the secret that all
// members share, with the name of the sponsor: so every host knows whose invite
// it is, and that somebody guessed, without asking another. It admits nobody;
// the invite's secret does.
const inviteHalf = 5

const (
	inviteDomain    = "skein/invite/1\n"
	ephemeralDomain = "skein/invite/ephemeral/1\n" // of invites for hosts that come and go
)

var inviteEncoding = base32.StdEncoding

// NewID returns the id of a new invite of sponsor.
func NewID(clusterSecret []byte, sponsor cluster.NodeID) string {
	return inviteID(inviteDomain, clusterSecret, RandomSecret(inviteHalf).Bytes(), sponsor)
}

// NewEphemeralID returns the id of a new invite of sponsor for ephemeral hosts.
func NewEphemeralID(clusterSecret []byte, sponsor cluster.NodeID) string {
	return inviteID(ephemeralDomain, clusterSecret, RandomSecret(inviteHalf).Bytes(), sponsor)
}

// Ephemeral reports whether an invite of sponsor was for ephemeral hosts.
func Ephemeral(clusterSecret []byte, invite string, sponsor cluster.NodeID) bool {
	raw, ok := rawID(invite)
	return ok && hmac.Equal([]byte(inviteID(ephemeralDomain, clusterSecret, raw[:inviteHalf], sponsor)), []byte(invite))
}

// rawID decodes the id of an invite.
func rawID(invite string) ([]byte, bool) {
	if !Valid(invite) {
		return nil, false
	}
	raw, err := inviteEncoding.DecodeString(strings.ToUpper(invite))
	return raw, err == nil
}

func inviteID(domain string, clusterSecret, random []byte, sponsor cluster.NodeID) string {
	h := hmac.New(sha256.New, clusterSecret)
	h.Write([]byte(domain))
	h.Write(random)
	h.Write([]byte(sponsor))
	return strings.ToLower(inviteEncoding.EncodeToString(append(random[:inviteHalf:inviteHalf], h.Sum(nil)[:inviteHalf]...)))
}

// SponsorOf finds out which of the sponsors made the invite, in the same time
// whether one did or not.
func SponsorOf(clusterSecret []byte, invite string, sponsors []cluster.NodeID) (cluster.NodeID, bool) {
	raw, ok := rawID(invite)
	if !ok {
		return "", false
	}
	var found cluster.NodeID
	for _, s := range sponsors {
		for _, domain := range [...]string{inviteDomain, ephemeralDomain} {
			if hmac.Equal([]byte(inviteID(domain, clusterSecret, raw[:inviteHalf], s)), []byte(invite)) {
				found = s
			}
		}
	}
	return found, found != ""
}

// For says for what hosts an invite is.
type For struct {
	Owner string // whose they are, "user:ann"; empty: nobody's
	// Ephemeral hosts come and go: they leave when they stop, and are removed when they are
	// dead for an hour.
	Ephemeral bool
}

// NewID returns the id of a new invite of sponsor for such hosts.
func (f For) NewID(clusterSecret []byte, sponsor cluster.NodeID) string {
	if f.Ephemeral {
		return NewEphemeralID(clusterSecret, sponsor)
	}
	return NewID(clusterSecret, sponsor)
}
