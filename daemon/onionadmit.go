package daemon

import (
	"encoding/base32"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
)

// maxAdmitted keys and three introduction points fit in a descriptor of tor's
// 50 000 bytes.
const maxAdmitted = 224

var clientEncoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// admission is who finds this host's own onion service, and what it was made of.
type admission struct {
	roster  *roster
	invited [][32]byte
	clients map[string]string
}

// admitted are the keys of those who find this host's own onion service.
func (o *onions) admitted() map[string]string {
	next := admission{roster: o.n.roster.Load()}
	if invites := o.n.invites.Load(); invites != nil {
		next.invited = invites.OnionClients(time.Now())
	}
	if next.roster == o.admission.roster && slices.Equal(next.invited, o.admission.invited) {
		return o.admission.clients
	}
	var left int
	next.clients, left = admitted(o.n.id.OnionClient().PublicKey().Bytes(), next.roster.members, next.invited)
	if left > 0 && o.first("admitted") {
		o.log.Warn().Int("left_out", left).Int("limit", maxAdmitted).Msg("not all members and invites find this host's own onion")
	}
	o.admission = next
	return next.clients
}

// admitted chooses the keys that an own onion service knows, by name: that of
// the host itself, without which an empty list would let in everybody, of the
// other members by their order, and of who is invited, by theirs. left are those
// for whom there is no room.
func admitted(own []byte, members []cluster.Member, invited [][32]byte) (clients map[string]string, left int) {
	keys := [][]byte{own}
	for _, m := range members {
		keys = append(keys, m.OnionClient)
	}
	for _, k := range invited {
		keys = append(keys, k[:])
	}
	clients = map[string]string{}
	for _, k := range keys {
		if _, err := clientKey(k); err != nil {
			continue // uses no tor, or wants everybody to read its descriptors
		}
		text := clientEncoding.EncodeToString(k)
		name := strings.ToLower(text)
		switch _, there := clients[name]; {
		case there:
		case len(clients) < maxAdmitted:
			clients[name] = text
		default:
			left++
		}
	}
	return clients, left
}
