package wire

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Version is the protocol version, the field v.
const Version = 2

// Everyone is the addressee of a message to all hosts.
const Everyone cluster.NodeID = "*"

// Type names a kind of message.
type Type string

// Types of message.
const (
	TypeHeartbeat    Type = "heartbeat"     // Heartbeat
	TypePeerAnnounce Type = "peer_announce" // PeerAnnounce
	TypeShare        Type = "intro_points"  // Share
	TypeLeaseClaim   Type = "lease_claim"   // Claim
	TypeLeaseRelease Type = "lease_release" // Release
	TypeRevoke       Type = "revoke"        // Revoke

	TypeBackendUnhealthy Type = "backend_unhealthy" // BackendUnhealthy
)

// maxTypeLen is the longest type, known or not.
const maxTypeLen = 32

// Header is a message without its payload.
type Header struct {
	Node cluster.NodeID // sender
	Time int64          // seconds since the Unix epoch, sender's wall clock
	Type Type
	To   cluster.NodeID // addressee, or Everyone
	Boot uint64         // sender's boot counter, from 1
	Seq  uint64         // from 1, rises with every message of this boot
}

// Message is a parsed message, not yet authenticated.
type Message struct {
	Header
	// Payload is the exact bytes that the signature covers, nil if absent.
	Payload json.RawMessage
	// Sig is the Ed25519 signature, 64 bytes.
	Sig []byte
	// Size is the length of the datagram, padding included.
	Size int
}

// sigEncoding is the text form of signatures and digests.
var sigEncoding = base64.RawURLEncoding.Strict()

// Seal encodes and signs a message. A nil payload is sent as {}. The error is
// an *Error: ReasonSize when the message is longer than MaxDatagram, else what
// the receiver would refuse it for.
func Seal(key ed25519.PrivateKey, h Header, payload any) ([]byte, error) {
	if err := h.validate(); err != nil {
		return nil, err
	}
	if p, ok := payload.(Payload); ok {
		if p.kind() != h.Type {
			return nil, Refuse(ReasonPayload, "payload of %s in %s", p.kind(), h.Type)
		}
		if err := p.validate(); err != nil {
			return nil, err
		}
	}
	raw := []byte("{}")
	if payload != nil {
		var err error
		if raw, err = json.Marshal(payload); err != nil {
			return nil, Refuse(ReasonPayload, "encode %s: %v", h.Type, err)
		}
	}
	sig := ed25519.Sign(key, signedBytes(h, raw))
	b := make([]byte, 0, MaxDatagram)
	b = fmt.Appendf(b, `{"node_id":%q,"timestamp":%d,"type":%q,"payload":`, h.Node, h.Time, h.Type)
	b = append(b, raw...)
	b = fmt.Appendf(b, `,"v":%d,"boot":%d,"seq":%d,"to":%q,"sig":"`, Version, h.Boot, h.Seq, h.To)
	b = sigEncoding.AppendEncode(b, sig)
	b = append(b, `"}`...)
	if len(b) > MaxDatagram {
		return nil, Refuse(ReasonSize, "%s of %d bytes, at most %d", h.Type, len(b), MaxDatagram)
	}
	return b, nil
}

// Pad makes a sealed heartbeat a probe of size bytes; its payload must say so.
func Pad(data []byte, size int) []byte {
	if n := size - len(data); n > 0 {
		data = append(data, bytes.Repeat([]byte(" "), n)...)
	}
	return data
}

// unpad checks the size of a datagram and cuts off what only pads it.
func unpad(data []byte) ([]byte, error) {
	if len(data) == 0 || len(data) > MaxProbe {
		return nil, Refuse(ReasonSize, "%d bytes, want 1-%d", len(data), MaxDatagram)
	}
	if len(data) <= MaxDatagram {
		return data, nil
	}
	for _, c := range data[MaxDatagram:] {
		if c != ' ' {
			return nil, Refuse(ReasonSize, "%d bytes, at most %d", len(data), MaxDatagram)
		}
	}
	return data[:MaxDatagram], nil
}

// Parse reads one message strictly. The result shares no memory with data.
// The error is an *Error with ReasonSize, ReasonParse or ReasonVersion.
func Parse(data []byte) (Message, error) {
	m := Message{Size: len(data)}
	data, err := unpad(data)
	if err != nil {
		return Message{}, err
	}
	var version uint64
	var sig bool
	err = fields(data, MaxDepth, func(name []byte, value json.RawMessage) (err error) {
		switch string(name) {
		case "node_id", "timestamp", "type":
			err = m.decode(name, value)
		case "payload":
			m.Payload = bytes.Clone(value)
		case "v":
			version, err = parseUint(value)
		case "boot":
			m.Boot, err = parseUint(value)
		case "seq":
			m.Seq, err = parseUint(value)
		case "to":
			if m.To = Everyone; string(value) != `"*"` {
				m.To, err = parseNode(value)
			}
		case "sig":
			sig = true
			m.Sig, err = parseSig(value)
		}
		if err != nil {
			return fmt.Errorf("field %s: %w", name, err)
		}
		return nil
	})
	switch {
	case err != nil:
		return Message{}, Refuse(ReasonParse, "%v", err)
	case version != Version:
		return Message{}, Refuse(ReasonVersion, "protocol version %d, want %d", version, Version)
	case !sig:
		return Message{}, Refuse(ReasonParse, "no sig")
	case m.Size > MaxDatagram && m.Type != TypeHeartbeat:
		return Message{}, Refuse(ReasonSize, "%s of %d bytes, at most %d", m.Type, m.Size, MaxDatagram)
	}
	if err := m.validate(); err != nil {
		return Message{}, err
	}
	return m, nil
}

// decode reads a field that the envelope had from its first version.
func (h *Header) decode(name []byte, value json.RawMessage) (err error) {
	switch string(name) {
	case "node_id":
		h.Node, err = parseNode(value)
	case "timestamp":
		var v uint64
		v, err = parseUint(value)
		h.Time = int64(v) // < 2^53
	case "type":
		var s string
		s, err = parseText(value, maxTypeLen)
		h.Type = Type(s)
	}
	return err
}

// Verify checks that pub signed m.
func Verify(m Message, pub ed25519.PublicKey) error {
	if len(pub) != ed25519.PublicKeySize || !ed25519.Verify(pub, signedBytes(m.Header, m.Payload), m.Sig) {
		return Refuse(ReasonSignature, "%s of %s", m.Type, m.Node)
	}
	return nil
}

// For checks that m is addressed to self or to everyone.
func (m Message) For(self cluster.NodeID) error {
	if m.To != Everyone && m.To != self {
		return Refuse(ReasonTo, "%s of %s is for %s", m.Type, m.Node, m.To)
	}
	return nil
}

// ErrBeforeStart is wrapped by Fresh's refusal of a message whose sender's
// clock is good and which was sent before the receiver's own start.
var ErrBeforeStart = errors.New("from before the start")

// Fresh checks that m was sent within tolerance of now and not before started,
// the receiver's own start: what was recorded before a restart, when the
// replay windows were lost, never counts again.
func (m Message) Fresh(now, started time.Time, tolerance time.Duration) error {
	sent := time.Unix(m.Time, 0)
	// The timestamp is in whole seconds; so is the comparison.
	if off := now.Truncate(time.Second).Sub(sent); off > tolerance || off < -tolerance {
		return Refuse(ReasonClock, "%s of %s is off by %s, tolerance %s", m.Type, m.Node, off, tolerance)
	}
	if sent.Before(started) {
		return &Error{Reason: ReasonClock, Detail: fmt.Sprintf("%s of %s is from before the start", m.Type, m.Node), Err: ErrBeforeStart}
	}
	return nil
}

// validate checks what encodings alone do not: presence and range.
func (h Header) validate() error {
	if _, err := cluster.ParseNodeID(string(h.Node)); err != nil {
		return Refuse(ReasonParse, "node_id: %v", err)
	}
	if h.To != Everyone {
		if _, err := cluster.ParseNodeID(string(h.To)); err != nil {
			return Refuse(ReasonParse, "to: %v", err)
		}
	}
	if h.Time <= 0 || h.Time > MaxNumber {
		return Refuse(ReasonParse, "timestamp %d", h.Time)
	}
	if h.Boot == 0 || h.Boot > MaxNumber || h.Seq == 0 || h.Seq > MaxNumber {
		return Refuse(ReasonParse, "boot %d, seq %d", h.Boot, h.Seq)
	}
	if h.Type == "" || len(h.Type) > maxTypeLen {
		return Refuse(ReasonParse, "type of %d bytes", len(h.Type))
	}
	for _, c := range []byte(h.Type) {
		if (c < 'a' || c > 'z') && c != '_' {
			return Refuse(ReasonParse, "type %q", h.Type)
		}
	}
	return nil
}

// signedBytes is what the signature covers.
func signedBytes(h Header, payload []byte) []byte {
	b := make([]byte, 0, 128+len(payload))
	b = append(b, "skein/msg/1"...)
	for _, s := range []string{string(h.Node), string(h.Type), string(h.To)} {
		b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
		b = append(b, s...)
	}
	b = binary.BigEndian.AppendUint64(b, uint64(h.Time))
	b = binary.BigEndian.AppendUint64(b, h.Boot)
	b = binary.BigEndian.AppendUint64(b, h.Seq)
	return append(b, payload...)
}

func parseText(v json.RawMessage, limit int) (string, error) {
	if len(v) == 0 || v[0] != '"' {
		return "", fmt.Errorf("not a string")
	}
	s := string(v[1 : len(v)-1]) // it is valid JSON
	if bytes.IndexByte(v, '\\') >= 0 {
		if err := json.Unmarshal(v, &s); err != nil {
			return "", err
		}
	}
	if len(s) > limit {
		return "", fmt.Errorf("%d bytes, at most %d", len(s), limit)
	}
	return s, nil
}

func parseNode(v json.RawMessage) (cluster.NodeID, error) {
	s, err := parseText(v, cluster.MaxNodeIDLen)
	if err != nil {
		return "", err
	}
	return cluster.ParseNodeID(s)
}

func parseUint(v json.RawMessage) (uint64, error) {
	n, err := strconv.ParseUint(string(v), 10, 53)
	if err != nil {
		return 0, fmt.Errorf("not a whole number below 2^53")
	}
	return n, nil
}

func parseSig(v json.RawMessage) ([]byte, error) {
	s, err := parseText(v, 128)
	if err != nil {
		return nil, err
	}
	b, err := sigEncoding.DecodeString(s)
	if err != nil || len(b) != ed25519.SignatureSize {
		return nil, fmt.Errorf("not an Ed25519 signature in base64url")
	}
	return b, nil
}
