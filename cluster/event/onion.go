package event

import (
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/skein-project/skein/cluster"
)

// Bounds of an onion address's settings.
const (
	// MaxOnions is how many addresses a cluster serves at a time.
	MaxOnions = 16
	// MaxOnionWeight bounds a host's share of the introduction points.
	MaxOnionWeight = 1000
	// MaxOnionClients is how many client keys fit in a descriptor.
	MaxOnionClients   = 111
	maxOnionClientLen = 64
)

// OnionClient is a client of an address with restricted discovery.
type OnionClient struct {
	Name string `json:"name"` // a-z, 0-9 and '-'
	Key  []byte `json:"key"`  // X25519 public key
}

// OnionSet says that the cluster serves an onion address, and how. It is signed
// by the address's own key, so only a host with that can change it; of two the
// higher version counts.
type OnionSet struct {
	Key     []byte `json:"key"`     // of the address, Ed25519
	Version uint64 `json:"version"` // rises with every change
	// Clients are all that may find the address; none: it is open.
	Clients []OnionClient `json:"clients,omitempty"`
	Removed bool          `json:"removed,omitempty"` // the cluster no longer serves it
	Actor   string        `json:"actor"`             // who asked, "uid:0@n1"
	Sig     []byte        `json:"sig"`               // by the address's key
}

const onionDomain = "skein/onion/1\n"

// SignedBytes is what the signature is over: all but who asked.
func (b OnionSet) SignedBytes() []byte {
	out := append([]byte(onionDomain), b.Key...)
	out = binary.BigEndian.AppendUint64(out, b.Version)
	if b.Removed {
		out = append(out, 1)
	} else {
		out = append(out, 0)
	}
	for _, c := range b.Clients {
		out = append(binary.BigEndian.AppendUint16(out, uint16(len(c.Name))), c.Name...) //nolint:gosec // at most maxOnionClientLen
		out = append(binary.BigEndian.AppendUint16(out, uint16(len(c.Key))), c.Key...)   //nolint:gosec // 32
	}
	return out
}

// CheckForm reports the first reason why b cannot be signed.
func (b OnionSet) CheckForm() error {
	switch {
	case len(b.Key) != ed25519.PublicKeySize:
		return fmt.Errorf("key of %d bytes, want %d", len(b.Key), ed25519.PublicKeySize)
	case b.Version == 0:
		return errors.New("no version")
	case len(b.Clients) > MaxOnionClients:
		return fmt.Errorf("%d clients, at most %d", len(b.Clients), MaxOnionClients)
	}
	for i, c := range b.Clients {
		if err := CheckOnionClient(c.Name); err != nil {
			return err
		}
		if len(c.Key) != 32 {
			return fmt.Errorf("client %q: key of %d bytes, want 32", c.Name, len(c.Key))
		}
		if i > 0 && b.Clients[i-1].Name >= c.Name {
			return errors.New("clients are not sorted by name, each once")
		}
	}
	return nil
}

// Check reports the first reason why b does not count.
func (b OnionSet) Check() error {
	if err := b.CheckForm(); err != nil {
		return err
	}
	if !ed25519.Verify(b.Key, b.SignedBytes(), b.Sig) {
		return errors.New("the address's key did not sign it")
	}
	return nil
}

// CheckOnionClient reports why name cannot name a client.
func CheckOnionClient(name string) error {
	if name == "" || len(name) > maxOnionClientLen {
		return fmt.Errorf("client name %q is not 1 to %d characters", name, maxOnionClientLen)
	}
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' {
			return fmt.Errorf("client name %q has a character other than a-z, 0-9 and '-'", name)
		}
	}
	return nil
}

// OnionGranted is written by a host that gave another one the key of an
// address. It never holds a key.
type OnionGranted struct {
	Address string         `json:"address"` // 56 characters and .onion
	Node    cluster.NodeID `json:"node"`    // that has the key now
	Actor   string         `json:"actor"`   // who asked, "uid:0@n1"
}

// OnionDrained is written by a host whose share of the onion addresses was
// laid down or taken up again.
type OnionDrained struct {
	Drained bool   `json:"drained"` // whether it is out of the descriptors
	Actor   string `json:"actor"`   // who asked, "uid:0@n1"
}

// OnionRotated is written by a host that took another onion key of its own.
type OnionRotated struct {
	From  string `json:"from"`  // its address before
	Actor string `json:"actor"` // who asked, "uid:0@n1"
}

// OnionTarget is written by a host one of whose services behind the onion
// addresses is reachable again, or is not.
type OnionTarget struct {
	Target  string `json:"target"`  // as configured, one of up to eight
	Healthy bool   `json:"healthy"` // whether it takes connections
	Reason  string `json:"reason"`  // at most MaxReason bytes
}

// OnionWrongMaster is written by a host whose tor gets introductions that it
// cannot read: clients were sent there for an address that it does not know.
type OnionWrongMaster struct {
	Count uint64 `json:"count"` // of such introductions since the start
}

// PublishAsked is written by a publisher that an operator has make new descriptors,
// though nothing changed.
type PublishAsked struct {
	Address string       `json:"address"` // 56 characters and .onion
	Term    cluster.Term `json:"term"`    // under which they are made
	Actor   string       `json:"actor"`   // who asked, "uid:0@n1"
}

// PublishDone is written by a publisher when clients find its new descriptor.
type PublishDone struct {
	Address string                 `json:"address"`           // 56 characters and .onion
	Term    cluster.Term           `json:"term"`              // under which it was made
	Points  map[cluster.NodeID]int `json:"points,omitempty"`  // introduction points per host
	Stored  int                    `json:"stored"`            // directories that have it
	Asked   int                    `json:"asked"`             // directories that clients ask
	NextAt  int64                  `json:"next_at,omitempty"` // when the publisher makes the next one, unless something changes before; seconds since the Unix epoch, 0: not told
}

// PublishFailed is written by a publisher whose descriptor could not be made,
// or is at too few directories.
type PublishFailed struct {
	Address string       `json:"address"` // 56 characters and .onion
	Term    cluster.Term `json:"term"`    // of the publisher
	Stored  int          `json:"stored"`  // directories that have it
	Asked   int          `json:"asked"`   // directories that clients ask; 0: there was nothing to post
	Reason  string       `json:"reason"`  // at most MaxReason bytes
}

// PublishFenced is written by a publisher that found one of a later term and
// stands back.
type PublishFenced struct {
	Address string       `json:"address"` // 56 characters and .onion
	Term    cluster.Term `json:"term"`    // of the writer
	Later   cluster.Term `json:"later"`   // of the other
}

// PublishForeign is written by a publisher that found a descriptor which this
// cluster did not make: the address's key is used elsewhere.
type PublishForeign struct {
	Address  string `json:"address"`  // 56 characters and .onion
	Revision uint64 `json:"revision"` // of what was found
	Dir      string `json:"dir"`      // directory that has it
}

// PublishRefused is written by a publisher that refused what a host sent as its
// descriptor. What it sent before goes on to count.
type PublishRefused struct {
	Address string         `json:"address"` // 56 characters and .onion
	Node    cluster.NodeID `json:"node"`    // the sender
	Reason  string         `json:"reason"`  // at most MaxReason bytes
}
