package gateway

import (
	"crypto/rand"
	"encoding/binary"

	"github.com/skein-project/skein/gateway/auth"
	"github.com/skein-project/skein/gateway/guard"
)

// newCode makes a claim code.
func newCode() auth.Code {
	var b [8]byte
	rand.Read(b[:])
	return auth.NewCode(binary.BigEndian.Uint64(b[:]))
}

// where says at which gateways a claim code is good.
func where(shared guard.Guard) string {
	if shared != nil {
		return "at the gateways that share a store"
	}
	return "at the gateway that gave it"
}
