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

const inviteDomain = "skein/invite/1\n"

var inviteEncoding = base32.StdEncoding

// NewID returns the id of a new invite of sponsor.
func NewID(clusterSecret []byte, sponsor cluster.NodeID) string {
	return inviteID(clusterSecret, RandomSecret(inviteHalf).Bytes(), sponsor)
}

func inviteID(clusterSecret, random []byte, sponsor cluster.NodeID) string {
	h := hmac.New(sha256.New, clusterSecret)
	h.Write([]byte(inviteDomain))
	h.Write(random)
	h.Write([]byte(sponsor))
	return strings.ToLower(inviteEncoding.EncodeToString(append(random[:inviteHalf:inviteHalf], h.Sum(nil)[:inviteHalf]...)))
}

// SponsorOf finds out which of the sponsors made the invite, in the same time
// whether one did or not.
func SponsorOf(clusterSecret []byte, invite string, sponsors []cluster.NodeID) (cluster.NodeID, bool) {
	if !Valid(invite) {
		return "", false
	}
	raw, err := inviteEncoding.DecodeString(strings.ToUpper(invite))
	if err != nil {
		return "", false
	}
	var found cluster.NodeID
	for _, s := range sponsors {
		if hmac.Equal([]byte(inviteID(clusterSecret, raw[:inviteHalf], s)), []byte(invite)) {
			found = s
		}
	}
	return found, found != ""
}
