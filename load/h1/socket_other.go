//go:build !unix

package h1

import "time"

// socket is nothing here.
type socket struct{}

func newSocket(*Conn) *socket { return nil }

func (*socket) exchange([]byte) (int, time.Duration, error) { return 0, 0, nil }
