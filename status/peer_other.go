//go:build !linux

package status

import (
	"errors"
	"net"
)

// credentials is not known on this system: the socket is read-only.
func credentials(*net.UnixConn) (peer, error) {
	return peer{}, errors.New("not known on this system")
}
