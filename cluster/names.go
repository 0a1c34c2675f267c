package cluster

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// NodeID names a host, cluster-wide and for ever: 1 to 32 characters of
// [a-z0-9-], starting and ending with a letter or digit.
type NodeID string

// MaxNodeIDLen is the longest NodeID, in bytes.
const MaxNodeIDLen = 32

// ErrNodeID reports a text that is not a NodeID.
var ErrNodeID = errors.New("node id must be 1-32 characters a-z, 0-9 or '-', not starting or ending with '-'")

// ParseNodeID checks s and returns it as a NodeID.
func ParseNodeID(s string) (NodeID, error) {
	if s == "" || len(s) > MaxNodeIDLen || s[0] == '-' || s[len(s)-1] == '-' {
		return "", fmt.Errorf("%q: %w", s, ErrNodeID)
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return "", fmt.Errorf("%q: %w", s, ErrNodeID)
		}
	}
	return NodeID(s), nil
}

// Term is the lease's fencing token. It only rises; 0 means "no lease yet".
type Term uint64

// Hash is a SHA-256 digest; its text form is 64 lower-case hex digits.
type Hash [32]byte

// String returns the hex form.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// IsZero reports the all-zero digest, which stands for "none".
func (h Hash) IsZero() bool { return h == Hash{} }

// MarshalText implements encoding.TextMarshaler.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It accepts exactly 64
// hex digits.
func (h *Hash) UnmarshalText(b []byte) error {
	if len(b) != 64 {
		return fmt.Errorf("sha-256 digest must be 64 hex digits, got %d characters", len(b))
	}
	if _, err := hex.Decode(h[:], b); err != nil {
		return fmt.Errorf("sha-256 digest: %w", err)
	}
	return nil
}

// ParseHash reads the hex form.
func ParseHash(s string) (Hash, error) {
	var h Hash
	err := h.UnmarshalText([]byte(s))
	return h, err
}

// HLC is a hybrid logical clock reading: milliseconds since the Unix epoch in
// the upper 48 bits, a counter in the lower 16 (Kulkarni et al., 2014).
type HLC uint64

// NewHLC builds a reading from a wall time and a counter.
func NewHLC(t time.Time, counter uint16) HLC {
	return HLC(uint64(t.UnixMilli())<<16 | uint64(counter))
}

// Time returns the wall part, in UTC.
func (h HLC) Time() time.Time { return time.UnixMilli(int64(h >> 16)).UTC() }

// Next returns the reading for a new event at wall time t, above both h and t.
func (h HLC) Next(t time.Time) HLC { return max(NewHLC(t, 0), h+1) }

// String returns "RFC3339.mmm+counter".
func (h HLC) String() string {
	return h.Time().Format("2006-01-02T15:04:05.000Z") + "+" + strconv.Itoa(int(h&0xffff))
}

// Role is what a member does under the lease.
type Role string

// Roles. On the wire a heartbeat says publisher or standby; to operators the
// scheduling side of the lease is shown as holder, standby or witness.
const (
	RolePublisher Role = "publisher"
	RoleStandby   Role = "standby"
	RoleHolder    Role = "holder"
	RoleWitness   Role = "witness"
)

// Health is what one host believes of another.
type Health string

// Health values, from unknown to gone.
const (
	Joining Health = "joining"
	Alive   Health = "alive"
	Suspect Health = "suspect"
	Dead    Health = "dead"
	Left    Health = "left"
)

// Mode says how the lease is granted; it follows the number of configured
// voters, never the number of hosts seen.
type Mode string

// Modes.
const (
	ModeAuto      Mode = "auto"
	ModeSingle    Mode = "single"
	ModeAvailable Mode = "available"
	ModeQuorum    Mode = "quorum"
)

// Profile names a set of lease timings.
type Profile string

// Profiles.
const (
	ProfileClassic Profile = "classic"
	ProfileLAN     Profile = "lan"
	ProfileFast    Profile = "fast"
)

// MaxReason bounds the reason of a failure or a stop, in bytes.
const MaxReason = 1024
