package wire

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
)

// Limits of a host's share of the onion addresses.
const (
	MaxSharePieces = 20       // of one host
	MaxSharePiece  = 2 << 10  // bytes of one
	MaxShareBytes  = 64 << 10 // of the JSON form of a share that is pulled
)

// PieceData is the content of one piece, opaque here. Its text form is base64;
// both alphabets are read, padded or not.
type PieceData []byte

// MarshalText implements encoding.TextMarshaler.
func (d PieceData) MarshalText() ([]byte, error) {
	return base64.StdEncoding.AppendEncode(nil, d), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *PieceData) UnmarshalText(b []byte) error {
	if base64.RawStdEncoding.DecodedLen(len(b)) > MaxSharePiece+2 {
		return fmt.Errorf("piece of %d bytes of base64", len(b))
	}
	text := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(string(b), "="))
	v, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return fmt.Errorf("piece is not base64: %w", err)
	}
	*d = v
	return nil
}

// SharePiece is one piece of a share: an entry of intro_points.
type SharePiece struct {
	Data PieceData `json:"data"`
}

// Share is the payload of intro_points: the sender's share of the onion
// addresses, in pieces that package publisher makes and reads. Each message
// replaces the one before. Pieces that do not fit a datagram are left out: then
// Count and Digest say what to pull.
type Share struct {
	Pieces    []SharePiece `json:"intro_points"`
	FetchedAt uint64       `json:"fetched_at"` // seconds since the Unix epoch
	Count     uint32       `json:"count,omitempty"`
	Digest    Digest       `json:"digest,omitzero"` // ShareDigest of the pieces left out
}

func (Share) kind() Type { return TypeShare }

// ShareDigest is over the pieces alone, in order; it is zero for none.
func ShareDigest(pieces []SharePiece) Digest {
	var d Digest
	if len(pieces) == 0 {
		return d
	}
	h := sha256.New()
	h.Write([]byte("skein/intro/1"))
	for _, p := range pieces {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(p.Data))))
		h.Write(p.Data)
	}
	copy(d[:], h.Sum(nil))
	return d
}

// CheckShare reports why pieces cannot be those of a share.
func CheckShare(pieces []SharePiece) error {
	if len(pieces) > MaxSharePieces {
		return Refuse(ReasonPayload, "intro_points: %d pieces, at most %d", len(pieces), MaxSharePieces)
	}
	for _, p := range pieces {
		if len(p.Data) == 0 || len(p.Data) > MaxSharePiece {
			return Refuse(ReasonPayload, "intro_points: piece of %d bytes, want 1-%d", len(p.Data), MaxSharePiece)
		}
	}
	return nil
}

func (p Share) validate() error {
	if err := CheckShare(p.Pieces); err != nil {
		return err
	}
	switch {
	case p.FetchedAt > MaxNumber:
		return Refuse(ReasonPayload, "intro_points: fetched_at %d", p.FetchedAt)
	case p.Count > MaxSharePieces:
		return Refuse(ReasonPayload, "intro_points: count %d, at most %d", p.Count, MaxSharePieces)
	case len(p.Pieces) > 0 && (p.Count != 0 || p.Digest != Digest{}):
		return Refuse(ReasonPayload, "intro_points: pieces and the digest of others")
	case (p.Count == 0) != (p.Digest == Digest{}):
		return Refuse(ReasonPayload, "intro_points: count %d does not go with the digest", p.Count)
	}
	return nil
}

// Whole reports whether p brings the pieces, or says that there are none.
func (p Share) Whole() bool { return p.Count == 0 }

// DecodeShare reads a share that was pulled: strict JSON like a message, whole,
// within the limits.
func DecodeShare(data []byte) (Share, error) {
	var p Share
	if len(data) > MaxShareBytes {
		return p, Refuse(ReasonSize, "share of %d bytes, at most %d", len(data), MaxShareBytes)
	}
	if err := CheckJSON(data, MaxDepth); err != nil {
		return p, Refuse(ReasonParse, "intro_points: %v", err)
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return Share{}, Refuse(ReasonPayload, "intro_points: %v", err)
	}
	if err := p.validate(); err != nil {
		return Share{}, err
	}
	if !p.Whole() {
		return Share{}, Refuse(ReasonPayload, "intro_points: a digest instead of the pieces")
	}
	return p, nil
}
