package api

import "fmt"

// DisconnectCode is how a gateway ends the connection of a worker. Whoever hears one below
// 4500 connects again, after a while; of the others that would not help.
type DisconnectCode uint32

// Codes of a gateway's own. Its WebSocket has further ones, below 4000.
const (
	DisconnectStopping DisconnectCode = 4101 // the gateway stops
	DisconnectLimit    DisconnectCode = 4129 // too much is asked, or too many connections are open
	DisconnectRevoked  DisconnectCode = 4501 // the worker is shut out, or its owner may do nothing
	DisconnectReplaced DisconnectCode = 4502 // another connection works as this worker
	DisconnectTooOld   DisconnectCode = 4503 // the client would not understand this gateway
)

// DisconnectCodes lists them.
func DisconnectCodes() []DisconnectCode {
	return []DisconnectCode{DisconnectStopping, DisconnectLimit, DisconnectRevoked, DisconnectReplaced, DisconnectTooOld}
}

// Own reports whether it is of a gateway, not of the protocol.
func (c DisconnectCode) Own() bool { return c >= 4000 && c < 5000 }

// Final reports whether to connect again would not help.
func (c DisconnectCode) Final() bool { return c >= 4500 && c.Own() }

// MaxDisconnectReason is how long a reason may be: a WebSocket has room for no more.
const MaxDisconnectReason = 120 // bytes

// Disconnect is why a gateway ends a connection.
type Disconnect struct {
	Code   DisconnectCode
	Reason string
}

// Error implements error.
func (d *Disconnect) Error() string { return fmt.Sprintf("disconnected: %s (%d)", d.Reason, d.Code) }
