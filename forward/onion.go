package forward

import (
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/overload"
)

// onionQuota is for all changes of a host's onion services.
func onionQuota(late bool) Quota {
	return Quota{Name: "onion", Burst: 16, Every: 10 * time.Second, Late: late}
}

// OnionKey is the key of an onion address, sealed to the identity of the host
// that gets it.
type OnionKey struct {
	Address string `json:"address"`
	Sealed  []byte `json:"sealed"`
}

// OnionGrant brings a host the key of an onion address.
var OnionGrant = &Op[OnionKey, None]{
	Name: "onion_grant", At: Host, Lane: overload.Status,
	Doc: "brings the host the key of an onion address", Answers: "nothing, once the key is on its disk",
	Who: "any member with that key", Quota: onionQuota(true),
}

// OnionNamed names an onion address.
type OnionNamed struct {
	Address string `json:"address"`
}

// OnionPublish has the publisher of an address make and post new descriptors.
var OnionPublish = &Op[OnionNamed, api.OnionPublished]{
	Name: "onion_publish", At: Host, Lane: overload.Status,
	Doc: "has the host, which publishes the onion address, make and post new descriptors", Answers: "under which term",
	Who: "any member", Quota: onionQuota(false),
}

// OnionDrain takes a host out of the descriptors, or puts it back.
var OnionDrain = &Op[api.OnionDrainRequest, None]{
	Name: "onion_drain", At: Host, Lane: overload.Control,
	Doc: "takes the host out of the onion descriptors, or puts it back", Answers: "nothing, once it is on its disk",
	Who: "any member", Quota: onionQuota(false),
}
