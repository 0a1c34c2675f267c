package api

import (
	"time"

	"github.com/skein-project/skein/cluster"
)

// Links are the half-edges of the mesh: each host knows only how it sees the others.
type Links struct {
	Header
	Links []Link `json:"links"`
}

// Link is what one host knows of its way to another. Without a report of that host,
// State is unknown.
type Link struct {
	From  cluster.NodeID `json:"from"`
	To    cluster.NodeID `json:"to"`
	State cluster.Health `json:"state"`
	// Stopped says that To is dead to From because it said that it stops, as who answers knows.
	Stopped bool   `json:"stopped,omitempty"`
	Path    string `json:"path"` // direct, onion, or empty: none
	// HandshakeSeconds is the age of the last handshake; null: never, or unknown.
	HandshakeSeconds       *float64 `json:"handshake_seconds"`
	RTTSeconds             *float64 `json:"rtt_seconds"`
	ReceiveBytesPerSecond  *float64 `json:"receive_bytes_per_second"`
	TransmitBytesPerSecond *float64 `json:"transmit_bytes_per_second"`
	// ReportedAt is when From last said so, by the clock of who answers; null: never.
	ReportedAt *time.Time `json:"reported_at"`
}
