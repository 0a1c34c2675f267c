package onion

import (
	"bytes"
	"crypto/ecdh"
	"encoding/base32"
	"slices"
	"strings"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/publisher/descriptor"
)

// maxAdmitted keys and three introduction points fit in a descriptor of tor's
// 50 000 bytes.
const maxAdmitted = 224

var clientEncoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// admission is who finds this host's own onion service, and the keys that it
// was made of.
type admission struct {
	keys    [][]byte
	clients map[string]string
}

// update takes the keys of this host, of the members and of who is invited, in
// this order. left are those for whom there is no room, 0 if nothing changed.
func (a *admission) update(own []byte, members []cluster.Member, invited [][32]byte) (left int) {
	keys := make([][]byte, 0, 1+len(members)+len(invited))
	keys = append(keys, own)
	for _, m := range members {
		keys = append(keys, m.OnionClient)
	}
	for i := range invited {
		keys = append(keys, invited[i][:])
	}
	if a.clients != nil && slices.EqualFunc(keys, a.keys, bytes.Equal) {
		return 0
	}
	a.keys = keys
	a.clients, left = admitted(keys)
	return left
}

// admitted chooses the keys that an own onion service knows, by name: the first
// is that of the host itself, without which an empty list would let in
// everybody. left are those for whom there is no room.
func admitted(keys [][]byte) (clients map[string]string, left int) {
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

// clientKey reads the public key of a client; one that gives no secret is
// refused.
func clientKey(raw []byte) (*ecdh.PublicKey, error) {
	k, err := ecdh.X25519().NewPublicKey(raw)
	if err != nil {
		return nil, err
	}
	return descriptor.ParseClientKey(descriptor.FormatClientKey(k))
}
