package wire

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
)

// Limits of introduction points and of hints about backends.
const (
	MaxIntroPoints    = 20      // of one host
	MaxIntroPoint     = 2 << 10 // bytes of one
	MaxIntroListBytes = 64 << 10
	MaxBackend        = 64 // bytes of a backend's name
)

// IntroData is one introduction point as its host has it, opaque here. Its text
// form is base64; both alphabets are read, padded or not.
type IntroData []byte

// MarshalText implements encoding.TextMarshaler.
func (d IntroData) MarshalText() ([]byte, error) {
	return base64.StdEncoding.AppendEncode(nil, d), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *IntroData) UnmarshalText(b []byte) error {
	if base64.RawStdEncoding.DecodedLen(len(b)) > MaxIntroPoint+2 {
		return fmt.Errorf("introduction point of %d bytes of base64", len(b))
	}
	text := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(string(b), "="))
	v, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return fmt.Errorf("introduction point is no base64: %w", err)
	}
	*d = v
	return nil
}

// IntroPoint is an entry of intro_points.
type IntroPoint struct {
	Data IntroData `json:"data"`
}

// IntroPoints are the introduction points that the sender's onion service has
// now; each message replaces what the one before said. A list that does not
// fit a datagram is left out: then Count and Digest say what to pull.
type IntroPoints struct {
	Points    []IntroPoint `json:"intro_points"`
	FetchedAt uint64       `json:"fetched_at"` // seconds since the Unix epoch
	Count     uint32       `json:"count,omitempty"`
	Digest    Digest       `json:"digest,omitzero"` // IntroDigest of the list left out
}

// BackendUnhealthy hints that a backend of the sender's fails. Each host still
// judges for itself.
type BackendUnhealthy struct {
	Backend string `json:"backend"`
}

func (IntroPoints) kind() Type      { return TypeIntroPoints }
func (BackendUnhealthy) kind() Type { return TypeBackendUnhealthy }

// IntroDigest is over the points alone, in order; it is zero for none.
func IntroDigest(points []IntroPoint) Digest {
	var d Digest
	if len(points) == 0 {
		return d
	}
	h := sha256.New()
	h.Write([]byte("skein/intro/1"))
	for _, p := range points {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(p.Data))))
		h.Write(p.Data)
	}
	copy(d[:], h.Sum(nil))
	return d
}

// CheckIntroPoints reports why points are no list of introduction points.
func CheckIntroPoints(points []IntroPoint) error {
	if len(points) > MaxIntroPoints {
		return Refuse(ReasonPayload, "intro_points: %d points, at most %d", len(points), MaxIntroPoints)
	}
	for _, p := range points {
		if len(p.Data) == 0 || len(p.Data) > MaxIntroPoint {
			return Refuse(ReasonPayload, "intro_points: point of %d bytes, want 1-%d", len(p.Data), MaxIntroPoint)
		}
	}
	return nil
}

func (p IntroPoints) validate() error {
	if err := CheckIntroPoints(p.Points); err != nil {
		return err
	}
	switch {
	case p.FetchedAt > MaxNumber:
		return Refuse(ReasonPayload, "intro_points: fetched_at %d", p.FetchedAt)
	case p.Count > MaxIntroPoints:
		return Refuse(ReasonPayload, "intro_points: count %d, at most %d", p.Count, MaxIntroPoints)
	case len(p.Points) > 0 && (p.Count != 0 || p.Digest != Digest{}):
		return Refuse(ReasonPayload, "intro_points: a list and the digest of another")
	case (p.Count == 0) != (p.Digest == Digest{}):
		return Refuse(ReasonPayload, "intro_points: count %d does not go with the digest", p.Count)
	}
	return nil
}

// Whole reports whether p brings the list, or says that there is none.
func (p IntroPoints) Whole() bool { return p.Count == 0 }

// DecodeIntroList reads a list that was pulled: strict JSON like a message,
// whole, within the limits.
func DecodeIntroList(data []byte) (IntroPoints, error) {
	var p IntroPoints
	if len(data) > MaxIntroListBytes {
		return p, Refuse(ReasonSize, "list of %d bytes, at most %d", len(data), MaxIntroListBytes)
	}
	if err := CheckJSON(data, MaxDepth); err != nil {
		return p, Refuse(ReasonParse, "intro_points: %v", err)
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return IntroPoints{}, Refuse(ReasonPayload, "intro_points: %v", err)
	}
	if err := p.validate(); err != nil {
		return IntroPoints{}, err
	}
	if !p.Whole() {
		return IntroPoints{}, Refuse(ReasonPayload, "intro_points: a digest instead of a list")
	}
	return p, nil
}

func (b BackendUnhealthy) validate() error {
	if b.Backend == "" || len(b.Backend) > MaxBackend || !printable(b.Backend) {
		return Refuse(ReasonPayload, "backend_unhealthy: backend %.80q", b.Backend)
	}
	return nil
}
