package publisher

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/publisher/descriptor"
)

// Share is what a host says of its part in the onion addresses. It travels in
// pieces, as the list of introduction points of the coordination protocol.
type Share struct {
	Address descriptor.Address // of its own service; zero: it serves nothing
	// Proof is the signature of ProofText by the key of that service, so that no
	// host can show the service of another one as its own.
	Proof   [ed25519.SignatureSize]byte
	Weight  uint32 // 0: drained; at most event.MaxOnionWeight
	Healthy bool   // its target takes connections
	// Relays are its introduction points with an established circuit.
	Relays []descriptor.Fingerprint
	// Serves are the addresses that its own service answers for. A client that is
	// introduced to it for another one waits in vain.
	Serves []descriptor.Address
	// Keys are the addresses that it could publish at once.
	Keys []descriptor.Address
	Text []byte // its own descriptor
}

// Bounds of a share and its pieces.
const (
	MaxPieces    = 20
	MaxPiece     = 2 << 10
	pieceHead    = 1 + 1 + 1 + 8
	pieceForm    = 2
	maxShare     = MaxPieces * (MaxPiece - pieceHead)
	maxRelays    = descriptor.MaxPoints
	maxAddresses = 64 // that it serves, and whose keys it has
	shareHealth  = 1  // flag
)

// ErrShare reports a share that cannot be read. What the host said before may
// go on to count.
var ErrShare = errors.New("not a host's share")

// ProofText is what the key of a host's own service signs.
func ProofText(node cluster.NodeID) []byte { return []byte("skein onion service of " + node) }

// Encode returns the pieces.
func (s Share) Encode() ([][]byte, error) {
	if len(s.Relays) > maxRelays || max(len(s.Serves), len(s.Keys)) > maxAddresses {
		return nil, fmt.Errorf("%w: %d relays, %d addresses and %d keys, at most %d, %d and %d",
			ErrShare, len(s.Relays), len(s.Serves), len(s.Keys), maxRelays, maxAddresses, maxAddresses)
	}
	flags := byte(0)
	if s.Healthy {
		flags |= shareHealth
	}
	body := append(append([]byte{}, s.Address[:]...), s.Proof[:]...)
	body = append(binary.BigEndian.AppendUint32(body, s.Weight), flags, byte(len(s.Relays)))
	for _, r := range s.Relays {
		body = append(body, r[:]...)
	}
	for _, list := range [][]descriptor.Address{s.Serves, s.Keys} {
		body = append(body, byte(len(list)))
		for _, a := range list {
			body = append(body, a[:]...)
		}
	}
	body = append(body, s.Text...)
	if len(body) > maxShare {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrShare, len(body), maxShare)
	}
	const room = MaxPiece - pieceHead
	sum, n := sha256.Sum256(body), (len(body)+room-1)/room
	pieces := make([][]byte, 0, n)
	for i := range n {
		piece := append([]byte{pieceForm, byte(i), byte(n)}, sum[:8]...)
		pieces = append(pieces, append(piece, body[i*room:min(len(body), (i+1)*room)]...))
	}
	return pieces, nil
}

// DecodeShare puts the pieces from a host together, in whatever order they come.
func DecodeShare(node cluster.NodeID, pieces [][]byte) (Share, error) {
	s, err := decodeShare(pieces)
	if err == nil && !s.Address.IsZero() && !ed25519.Verify(s.Address[:], ProofText(node), s.Proof[:]) {
		err = fmt.Errorf("%w: the key of %s did not sign that it is that of %s", ErrShare, s.Address, node)
	}
	if err != nil {
		return Share{}, err
	}
	return s, nil
}

func decodeShare(pieces [][]byte) (s Share, err error) {
	body, err := joinPieces(pieces)
	if err != nil {
		return s, err
	}
	take := func(n int) []byte {
		if err != nil || len(body) < n {
			err = fmt.Errorf("%w: cut off", ErrShare)
			return make([]byte, n)
		}
		head := body[:n]
		body = body[n:]
		return head
	}
	copy(s.Address[:], take(len(s.Address)))
	copy(s.Proof[:], take(len(s.Proof)))
	if s.Weight = binary.BigEndian.Uint32(take(4)); s.Weight > event.MaxOnionWeight {
		return Share{}, fmt.Errorf("%w: weight %d, at most %d", ErrShare, s.Weight, event.MaxOnionWeight)
	}
	s.Healthy = take(1)[0]&shareHealth != 0
	n := int(take(1)[0])
	if n > maxRelays {
		return Share{}, fmt.Errorf("%w: %d relays, at most %d", ErrShare, n, maxRelays)
	}
	for range n {
		s.Relays = append(s.Relays, descriptor.Fingerprint(take(len(descriptor.Fingerprint{}))))
	}
	for _, list := range []*[]descriptor.Address{&s.Serves, &s.Keys} {
		if n = int(take(1)[0]); n > maxAddresses {
			return Share{}, fmt.Errorf("%w: %d addresses, at most %d", ErrShare, n, maxAddresses)
		}
		for range n {
			*list = append(*list, descriptor.Address(take(len(descriptor.Address{}))))
		}
	}
	if err != nil {
		return Share{}, err
	}
	s.Text = body
	if !s.Address.IsZero() {
		if err := s.Address.Valid(); err != nil {
			return Share{}, fmt.Errorf("%w: %w", ErrShare, err)
		}
	}
	return s, nil
}

func joinPieces(pieces [][]byte) ([]byte, error) {
	if len(pieces) == 0 || len(pieces) > MaxPieces {
		return nil, fmt.Errorf("%w: %d pieces, want 1 to %d", ErrShare, len(pieces), MaxPieces)
	}
	sorted := make([][]byte, len(pieces))
	for _, p := range pieces {
		switch {
		case len(p) < pieceHead || len(p) > MaxPiece || p[0] != pieceForm:
			return nil, fmt.Errorf("%w: a piece of unknown form", ErrShare)
		case int(p[2]) != len(pieces) || int(p[1]) >= len(pieces) || sorted[p[1]] != nil:
			return nil, fmt.Errorf("%w: piece %d of %d among %d", ErrShare, p[1], p[2], len(pieces))
		}
		sorted[p[1]] = p
	}
	var body []byte
	for _, p := range sorted {
		body = append(body, p[pieceHead:]...)
	}
	sum := sha256.Sum256(body)
	for _, p := range sorted {
		if string(p[3:pieceHead]) != string(sum[:8]) {
			return nil, fmt.Errorf("%w: pieces of different ones", ErrShare)
		}
	}
	return body, nil
}
