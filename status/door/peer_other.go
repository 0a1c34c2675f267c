//go:build !linux

package door

import (
	"errors"
	"net"
)

// Credentials is not known on this system: the socket is read-only.
func Credentials(*net.UnixConn) (Peer, error) {
	return Peer{}, errors.New("not known on this system")
}
