//go:build !unix

package h1

import (
	"net"
	"time"
)

// socket is nothing here.
type socket struct{}

func newSocket(*Conn) *socket { return nil }

func (*socket) exchange([]byte) (int, time.Duration, error) { return 0, 0, nil }

// beneath is nothing here.
type beneath struct {
	took time.Duration
	werr error
}

// Beneath is what TLS is to be put on.
func Beneath(c net.Conn) net.Conn { return c }

func beneathOf(*Conn) *beneath { return nil }

func (*beneath) begin() {}

func (*beneath) end() {}
