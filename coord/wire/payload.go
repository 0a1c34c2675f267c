package wire

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"github.com/skein-project/skein/cluster"
)

// Limits of payloads.
const (
	MaxKnownPeers = 4   // entries of known_peers in a heartbeat
	MaxRecordText = 600 // text form of a membership record in a peer_announce
	MaxShortText  = 32  // version, zone, profile
	MaxPlaceText  = 60  // place, and zone_rtts, of a heartbeat
)

// Payload is the content of a message: Heartbeat, PeerAnnounce, Share,
// Claim, Release, BackendUnhealthy, Revoke or one of the Swim messages. The set
// is closed.
type Payload interface {
	kind() Type
	validate() error
}

// Digest is a truncated SHA-256 over a set of records; its text form is
// base64url.
type Digest [16]byte

// MarshalText implements encoding.TextMarshaler.
func (d Digest) MarshalText() ([]byte, error) { return sigEncoding.AppendEncode(nil, d[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Digest) UnmarshalText(b []byte) error {
	v, err := sigEncoding.DecodeString(string(b))
	if err != nil || len(v) != len(d) {
		return fmt.Errorf("digest must be %d bytes of base64url", len(d))
	}
	copy(d[:], v)
	return nil
}

// WGKey is a WireGuard public key; its text form is the usual base64.
type WGKey [32]byte

// MarshalText implements encoding.TextMarshaler.
func (k WGKey) MarshalText() ([]byte, error) {
	return base64.StdEncoding.AppendEncode(nil, k[:]), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *WGKey) UnmarshalText(b []byte) error {
	v, err := base64.StdEncoding.Strict().DecodeString(string(b))
	if err != nil || len(v) != len(k) {
		return fmt.Errorf("wireguard key must be %d bytes of base64", len(k))
	}
	copy(k[:], v)
	return nil
}

// PeerHint names a member that the receiver may not know. It adds nothing by
// itself: only certified records do.
type PeerHint struct {
	Node     cluster.NodeID `json:"node_id"`
	WGPub    WGKey          `json:"wg_pubkey"`
	Endpoint netip.AddrPort `json:"wg_endpoint"` // may be empty
	TunnelIP netip.Addr     `json:"tunnel_ip"`
}

// UnmarshalJSON implements json.Unmarshaler. A key that cannot be read, perhaps
// of a kind that a later version has, is left zero: it is nobody's, so the hint
// says nothing and the heartbeat still counts.
func (p *PeerHint) UnmarshalJSON(b []byte) error {
	type plain PeerHint
	v := struct {
		*plain
		WGPub string `json:"wg_pubkey"`
	}{plain: (*plain)(p)}
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	if err := p.WGPub.UnmarshalText([]byte(v.WGPub)); err != nil {
		p.WGPub = WGKey{}
	}
	return nil
}

// Heartbeat says that the sender lives and what it does. It informs; it never
// grants anything.
type Heartbeat struct {
	Role        cluster.Role `json:"role"` // publisher or standby
	LastPublish *uint64      `json:"last_publish_ts,omitempty"`
	KnownPeers  []PeerHint   `json:"known_peers"`
	IntroPoints uint32       `json:"intro_point_count"`
	// Share is ShareDigest of the sender's share of the onion addresses.
	Share Digest `json:"intro,omitzero"`

	Version string `json:"version"` // of the program
	// Level says which kinds of event the sender knows, see event.Level.
	Level    uint32          `json:"level,omitempty"`
	Profile  cluster.Profile `json:"profile"`
	Zone     string          `json:"zone,omitempty"`
	Priority uint32          `json:"priority"`
	Witness  bool            `json:"witness,omitempty"`
	// Eligible: may hold the lease now (not a witness, not draining, healthy).
	Eligible bool `json:"eligible"`
	// Leaving is the last word of a host that stops.
	Leaving bool `json:"leaving,omitempty"`
	// Abstains: its record of votes was lost, so that it grants nothing until
	// a holder has admitted it again.
	Abstains bool `json:"abstains,omitempty"`

	// Term and Holder are the lease as the sender sees it; Holder may be empty.
	Term   cluster.Term   `json:"term"`
	Holder cluster.NodeID `json:"holder,omitempty"`

	Members Digest `json:"members"` // membership records
	Log     Digest `json:"log"`     // heads of the event log

	// LogEvents is the number of events in that log: by it a host that is a few
	// events behind is told from one that lacks a day.
	LogEvents uint64 `json:"log_events,omitempty"`

	Slots uint32 `json:"slots"` // of the sender's worker
	Busy  uint32 `json:"busy"`
	// Load is how loaded the sender is; nil: it does not say.
	Load *Load `json:"load,omitempty"`

	// Place is where the sender is by network coordinates, ZoneTrips how far the zones
	// are from it: see package coord/distance, which refuses what it cannot read. Either
	// may be empty.
	Place     string `json:"place,omitempty"`
	ZoneTrips string `json:"zone_rtts,omitempty"`

	// SentUS is the sender's local clock in microseconds. EchoUS is the SentUS
	// of the last heartbeat received from the addressee and HeldUS the time
	// since; zero if none. Round trip = now - EchoUS - HeldUS.
	SentUS uint64 `json:"sent_us"`
	EchoUS uint64 `json:"echo_us,omitempty"`
	HeldUS uint64 `json:"held_us,omitempty"`

	// Inc is the sender's incarnation if it knows the Swim messages.
	Inc *uint64 `json:"inc,omitempty"`

	// Probe is the length of the datagram if it is padded. ProbeEcho is that
	// of the last such one that arrived from the addressee lately.
	Probe     uint32 `json:"probe,omitempty"`
	ProbeEcho uint32 `json:"probe_echo,omitempty"`

	// SeenBoot is sent to a host of which two processes are heard: the boot of
	// the one that counts.
	SeenBoot uint64 `json:"seen_boot,omitempty"`
}

// PeerAnnounce introduces the sender by its records.
type PeerAnnounce struct {
	// ClusterToken is AnnounceToken of the fields below: proof of the cluster
	// secret, which itself is never sent.
	ClusterToken string         `json:"cluster_token"`
	WGPub        WGKey          `json:"wg_pubkey"`
	Endpoint     netip.AddrPort `json:"wg_endpoint"` // may be empty
	TunnelIP     netip.Addr     `json:"tunnel_ip"`
	// Cert and Ann are the text forms of the sender's signed records.
	Cert string `json:"cert"`
	Ann  string `json:"ann"`
}

// Claim is a lease message: the envelope sees its priority and term, the lease
// core decodes Raw.
type Claim struct {
	Priority uint32
	Term     cluster.Term
	Raw      json.RawMessage
}

// Release ends a term. Term is 0 and Raw nil when the payload is absent, null
// or {}: such a release says nothing that a lease core could check.
type Release struct {
	Term cluster.Term
	Raw  json.RawMessage
}

// Revoke carries a revocation to those who must act on it at once.
type Revoke struct {
	Record string `json:"record"` // text form of the signed record
}

func (Heartbeat) kind() Type    { return TypeHeartbeat }
func (PeerAnnounce) kind() Type { return TypePeerAnnounce }
func (Claim) kind() Type        { return TypeLeaseClaim }
func (Release) kind() Type      { return TypeLeaseRelease }
func (Revoke) kind() Type       { return TypeRevoke }

// MarshalJSON implements json.Marshaler: the payload is Raw.
func (c Claim) MarshalJSON() ([]byte, error) { return c.Raw, nil }

// MarshalJSON implements json.Marshaler: the payload is Raw, {} if nil.
func (r Release) MarshalJSON() ([]byte, error) {
	if r.Raw == nil {
		return []byte("{}"), nil
	}
	return r.Raw, nil
}

// NewClaim builds the payload of lease_claim from a lease message, whose JSON
// form must have priority and term.
func NewClaim(msg any) (Claim, error) {
	raw, err := json.Marshal(msg)
	if err != nil {
		return Claim{}, Refuse(ReasonPayload, "encode lease_claim: %v", err)
	}
	return decodeClaim(raw)
}

// NewRelease builds the payload of lease_release from a lease message, whose
// JSON form must have term.
func NewRelease(msg any) (Release, error) {
	raw, err := json.Marshal(msg)
	if err != nil {
		return Release{}, Refuse(ReasonPayload, "encode lease_release: %v", err)
	}
	return decodeRelease(raw)
}

// Decode reads the payload of m by its type. The error is an *Error with
// ReasonUnknownType, ReasonPayload or ReasonTerm.
func Decode(m Message) (Payload, error) {
	var p Payload
	var err error
	switch m.Type {
	case TypeHeartbeat:
		p, err = decodeStruct[Heartbeat](m.Payload)
	case TypePeerAnnounce:
		p, err = decodeStruct[PeerAnnounce](m.Payload)
	case TypeLeaseClaim:
		p, err = decodeClaim(m.Payload)
	case TypeLeaseRelease:
		p, err = decodeRelease(m.Payload)
	case TypeRevoke:
		p, err = decodeStruct[Revoke](m.Payload)
	case TypeShare:
		p, err = decodeStruct[Share](m.Payload)
	case TypeBackendUnhealthy:
		p, err = decodeStruct[BackendUnhealthy](m.Payload)
	default:
		p, err = decodeSwim(m)
	}
	if err != nil {
		return nil, err
	}
	if err := p.validate(); err != nil {
		return nil, err
	}
	if hb, ok := p.(Heartbeat); ok && (hb.Probe != 0 || m.Size > MaxDatagram) && int(hb.Probe) != m.Size {
		return nil, Refuse(ReasonSize, "heartbeat of %d bytes says %d", m.Size, hb.Probe)
	}
	return p, nil
}

func decodeStruct[T Payload](raw json.RawMessage) (Payload, error) {
	var v T
	if len(raw) == 0 || raw[0] != '{' {
		return nil, Refuse(ReasonPayload, "%s: not an object", v.kind())
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, Refuse(ReasonPayload, "%s: %v", v.kind(), err)
	}
	return v, nil
}

func decodeClaim(raw json.RawMessage) (Claim, error) {
	var v struct {
		Priority *uint32 `json:"priority"`
		Term     uint64  `json:"term"`
	}
	if len(raw) == 0 || raw[0] != '{' {
		return Claim{}, Refuse(ReasonPayload, "lease_claim: not an object")
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return Claim{}, Refuse(ReasonPayload, "lease_claim: %v", err)
	}
	if v.Priority == nil {
		return Claim{}, Refuse(ReasonPayload, "lease_claim: no priority")
	}
	c := Claim{Priority: *v.Priority, Term: cluster.Term(v.Term), Raw: raw}
	return c, c.validate()
}

func decodeRelease(raw json.RawMessage) (Release, error) {
	switch string(bytes.TrimSpace(raw)) {
	case "", "null", "{}":
		return Release{}, nil
	}
	var v struct {
		Term uint64 `json:"term"`
	}
	if raw[0] != '{' {
		return Release{}, Refuse(ReasonPayload, "lease_release: not an object")
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return Release{}, Refuse(ReasonPayload, "lease_release: %v", err)
	}
	return Release{Term: cluster.Term(v.Term), Raw: raw}, nil
}

// Check reports why p would be refused.
func Check(p Payload) error { return p.validate() }

func (c Claim) validate() error {
	if c.Term == 0 {
		return Refuse(ReasonTerm, "lease_claim without term")
	}
	if c.Term > MaxNumber {
		return Refuse(ReasonPayload, "lease_claim: term %d", c.Term)
	}
	return nil
}

func (r Release) validate() error {
	if r.Term > MaxNumber {
		return Refuse(ReasonPayload, "lease_release: term %d", r.Term)
	}
	return nil
}

func (h Heartbeat) validate() error {
	bad := func(format string, args ...any) error {
		return Refuse(ReasonPayload, "heartbeat: "+format, args...)
	}
	switch {
	case h.Role != cluster.RolePublisher && h.Role != cluster.RoleStandby:
		return bad("role %q", h.Role)
	case len(h.KnownPeers) > MaxKnownPeers:
		return bad("%d known_peers, at most %d", len(h.KnownPeers), MaxKnownPeers)
	case len(h.Version) > MaxShortText, len(h.Zone) > MaxShortText, len(h.Profile) > MaxShortText:
		return bad("version, zone or profile above %d bytes", MaxShortText)
	case h.Probe > MaxProbe, h.ProbeEcho > MaxProbe:
		return bad("probe of %d bytes, echo of %d", h.Probe, h.ProbeEcho)
	case h.Term > MaxNumber, h.LogEvents > MaxNumber, h.SentUS > MaxNumber, h.EchoUS > MaxNumber, h.HeldUS > MaxNumber,
		h.SeenBoot > MaxNumber:
		return bad("number out of range")
	case h.Inc != nil && *h.Inc > MaxNumber:
		return bad("incarnation %d", *h.Inc)
	case h.LastPublish != nil && *h.LastPublish > MaxNumber:
		return bad("last_publish_ts %d", *h.LastPublish)
	case h.Busy > h.Slots:
		return bad("%d of %d slots busy", h.Busy, h.Slots)
	case !h.Load.valid():
		return bad("load %v", *h.Load)
	case len(h.Place) > MaxPlaceText, len(h.ZoneTrips) > MaxPlaceText:
		return bad("place or zone_rtts above %d bytes", MaxPlaceText)
	}
	for _, s := range []string{h.Version, h.Zone, string(h.Profile)} {
		if !printable(s) {
			return bad("text %q", s)
		}
	}
	if h.Holder != "" {
		if _, err := cluster.ParseNodeID(string(h.Holder)); err != nil {
			return bad("holder: %v", err)
		}
	}
	for _, p := range h.KnownPeers {
		if _, err := cluster.ParseNodeID(string(p.Node)); err != nil {
			return bad("known_peers: %v", err)
		}
		if err := checkAddrs(p.TunnelIP, p.Endpoint); err != nil {
			return bad("known_peers: %s: %v", p.Node, err)
		}
	}
	return nil
}

func (a PeerAnnounce) validate() error {
	if !strings.HasPrefix(a.ClusterToken, tokenPrefix) || len(a.ClusterToken) > 64 {
		return Refuse(ReasonPayload, "peer_announce: cluster_token")
	}
	if err := checkAddrs(a.TunnelIP, a.Endpoint); err != nil {
		return Refuse(ReasonPayload, "peer_announce: %v", err)
	}
	for _, s := range []string{a.Cert, a.Ann} {
		if s == "" || len(s) > MaxRecordText {
			return Refuse(ReasonPayload, "peer_announce: record of %d bytes, want 1-%d", len(s), MaxRecordText)
		}
	}
	return nil
}

func (r Revoke) validate() error {
	if r.Record == "" || len(r.Record) > MaxRecordText {
		return Refuse(ReasonPayload, "revoke: record of %d bytes, want 1-%d", len(r.Record), MaxRecordText)
	}
	return nil
}

func checkAddrs(tunnel netip.Addr, endpoint netip.AddrPort) error {
	if !tunnel.IsValid() || tunnel.Zone() != "" {
		return fmt.Errorf("tunnel_ip %s", tunnel)
	}
	if endpoint != (netip.AddrPort{}) && (!endpoint.IsValid() || endpoint.Port() == 0 || endpoint.Addr().Zone() != "") {
		return fmt.Errorf("wg_endpoint %s", endpoint)
	}
	return nil
}

// printable reports whether s is plain ASCII without control characters.
func printable(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// tokenPrefix marks a cluster_token that is a proof, not a secret.
const tokenPrefix = "v2:"

// AnnounceToken proves knowledge of the cluster secret for one announcement.
func AnnounceToken(secret []byte, node cluster.NodeID, a PeerAnnounce) string {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("skein/announce/1"))
	for _, s := range []string{string(node), string(a.WGPub[:]), a.Endpoint.String(), a.TunnelIP.String(), a.Cert, a.Ann} {
		h.Write(binary.BigEndian.AppendUint16(nil, uint16(len(s))))
		h.Write([]byte(s))
	}
	return tokenPrefix + sigEncoding.EncodeToString(h.Sum(nil))
}

// CheckToken reports whether a's cluster_token proves secret, in constant time.
func (a PeerAnnounce) CheckToken(secret []byte, node cluster.NodeID) bool {
	return hmac.Equal([]byte(a.ClusterToken), []byte(AnnounceToken(secret, node, a)))
}
