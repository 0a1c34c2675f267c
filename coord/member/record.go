package member

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base32"
	"encoding/base64"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Limits of records.
const (
	MaxMembers     = 1024           // certified keys in a table
	maxKeys        = 2 * MaxMembers // certified and revoked ones
	rootReserve    = 64             // of maxKeys: only for what the root key revokes
	MaxEndpoints   = 4              // underlay addresses in an announcement
	MaxZoneLen     = 32             // bytes
	MaxReasonLen   = 64             // bytes
	maxRecordBytes = 512            // one record, without signature
	// maxAhead is how far a record's issue time may lie in the future.
	maxAhead = 5 * time.Minute
)

// CapSponsor lets a key certify members inside its slice. Only root-signed
// certificates carry it.
const CapSponsor = "sponsor"

// Lives of records.
const (
	// DefaultCertLife is how long a sponsor's certificate for a member is
	// valid. It is renewed when two thirds of its life are over.
	DefaultCertLife = 30 * 24 * time.Hour
	// ExpiredGrace is how long after its expiry a record still travels: a host
	// that joins meanwhile must learn of members whose sponsor is away. After
	// it only hosts that hold the record already keep it. A revocation outlives
	// the certificates of its key by as much, so that none of them returns.
	ExpiredGrace = DefaultCertLife
	// MaxCertLife is the longest life of a sponsor's certificate for a member.
	MaxCertLife = 366 * 24 * time.Hour
	// maxRevokeLife bounds how long a sponsor's revocation binds.
	maxRevokeLife = MaxCertLife + ExpiredGrace + 48*time.Hour
	// renewTime is how long members have to be renewed after the end of their
	// sponsor, before a full table may forget them.
	renewTime = 24 * time.Hour
	// tombLinger is how long a revocation that nobody tells any more still
	// binds, so that hosts with slightly different clocks do not quarrel.
	tombLinger = time.Hour
)

// ClusterID names a cluster. Its text form is 26 lower-case base32 characters.
type ClusterID [16]byte

var clusterEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// String returns the text form.
func (c ClusterID) String() string { return clusterEncoding.EncodeToString(c[:]) }

// MarshalText implements encoding.TextMarshaler.
func (c ClusterID) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *ClusterID) UnmarshalText(b []byte) error {
	v, err := clusterEncoding.DecodeString(string(b))
	if err != nil || len(v) != len(c) || clusterEncoding.EncodeToString(v) != string(b) {
		return fmt.Errorf("cluster id must be 26 characters a-z, 2-7: %w", ErrFormat)
	}
	copy(c[:], v)
	return nil
}

// Signed is a record as it travels and is kept: exact bytes and signature. Its
// text form is base64url(bytes) "." base64url(signature).
type Signed struct {
	Bytes []byte
	Sig   []byte
}

var recordEncoding = base64.RawURLEncoding.Strict()

// String returns the text form.
func (s Signed) String() string {
	return recordEncoding.EncodeToString(s.Bytes) + "." + recordEncoding.EncodeToString(s.Sig)
}

// MarshalText implements encoding.TextMarshaler.
func (s Signed) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It checks form and size,
// not truth.
func (s *Signed) UnmarshalText(b []byte) error {
	v, err := ParseSigned(string(b))
	if err != nil {
		return err
	}
	*s = v
	return nil
}

// ParseSigned reads the text form.
func ParseSigned(text string) (Signed, error) {
	rec, sig, ok := strings.Cut(text, ".")
	if !ok || len(rec) > recordEncoding.EncodedLen(maxRecordBytes) || strings.ContainsAny(text, "\r\n") {
		return Signed{}, fmt.Errorf("signed record of %d characters: %w", len(text), ErrFormat)
	}
	var s Signed
	var err error
	if s.Bytes, err = recordEncoding.DecodeString(rec); err != nil || len(s.Bytes) == 0 {
		return Signed{}, fmt.Errorf("signed record: bytes: %w", ErrFormat)
	}
	if s.Sig, err = recordEncoding.DecodeString(sig); err != nil || len(s.Sig) != ed25519.SignatureSize {
		return Signed{}, fmt.Errorf("signed record: signature: %w", ErrFormat)
	}
	return s, nil
}

// Equal reports whether s and o are the same bytes.
func (s Signed) Equal(o Signed) bool {
	return bytes.Equal(s.Bytes, o.Bytes) && bytes.Equal(s.Sig, o.Sig)
}

// IsZero reports the absent record.
func (s Signed) IsZero() bool { return len(s.Bytes) == 0 }

// Domains keep a signature for one kind of record from serving as another.
const (
	certDomain   = "skein/cert/1\n"
	annDomain    = "skein/ann/1\n"
	revokeDomain = "skein/revoke/1\n"
)

// Cert binds an identity key to a node id and its mesh addresses.
type Cert struct {
	Cluster ClusterID
	Node    cluster.NodeID
	IDPub   ed25519.PublicKey
	IP4     netip.Addr
	IP6     netip.Addr
	Caps    []string     // CapSponsor or nothing
	Slice   netip.Prefix // of a sponsor: the addresses that it may give
	// Renewed says that another sponsor gave the address: it may lie outside
	// the issuer's slice, and yields to a certificate from inside.
	Renewed bool
	Serial  uint64 // of the issuer, rising
	Issued  int64  // seconds since the Unix epoch
	Expires int64  // same; 0: never, root-signed only
	// Since is when the address was first given to this key: renewals keep
	// it, and of two keys with one address the earlier has it. Sign takes 0
	// for Issued.
	Since  int64
	Issuer ed25519.PublicKey
}

// RenewAt is when c is due for renewal, the zero time for one that never
// expires.
func (c Cert) RenewAt() time.Time {
	if c.Expires == 0 {
		return time.Time{}
	}
	return time.Unix(c.Issued+(c.Expires-c.Issued)/3*2, 0)
}

// Sponsor reports whether c lets its key certify members.
func (c Cert) Sponsor() bool { return len(c.Caps) == 1 && c.Caps[0] == CapSponsor }

// Ann is what a host says about itself.
type Ann struct {
	IDPub     ed25519.PublicKey
	WGPub     [32]byte
	Endpoints []netip.AddrPort // at most MaxEndpoints
	NAT       bool
	Epoch     uint64 // from 1, rises with every announcement
	Issued    int64  // seconds since the Unix epoch
	Expires   int64  // same; 0: never
	Zone      string
	Priority  uint32
	Witness   bool
	// Next is the WireGuard key that replaces WGPub at NextAt (seconds since
	// the Unix epoch); both zero if none is planned.
	Next   [32]byte
	NextAt int64
	// Onion is where the host's own onion service is, zero if it has none.
	Onion Onion
	// OnionClient is the public X25519 key with which the host reads the
	// descriptors of the others' own onion services, which are restricted to
	// members; zero if it uses no tor.
	OnionClient [32]byte
}

// Revoke ends a key for ever. Signed by the key itself it is a leave.
type Revoke struct {
	Cluster ClusterID
	IDPub   ed25519.PublicKey
	Reason  string // at most MaxReasonLen bytes
	Issued  int64
	Expires int64 // see RevokeUntil; 0: never
	Issuer  ed25519.PublicKey
}

// ReasonLeft is the reason of a leave.
const ReasonLeft = "left"

// Left reports whether r is its own key's: the host left, nobody removed it.
func (r Revoke) Left() bool { return r.Issuer.Equal(r.IDPub) }

// RevokeUntil is the expiry of a revocation of c's key: when no certificate of
// that key can be accepted any more, with a day to spare.
func RevokeUntil(c Cert) int64 {
	if c.Expires == 0 {
		return 0
	}
	return time.Unix(c.Expires, 0).Add(ExpiredGrace + 24*time.Hour).Unix()
}

// Sign encodes c and signs it with the issuer's key, which must be the one
// that c.Issuer names.
func (c Cert) Sign(issuer ed25519.PrivateKey) (Signed, error) {
	if c.Since == 0 {
		c.Since = c.Issued
	}
	return sign(certDomain, c, c.Issuer, issuer)
}

// Sign encodes a and signs it with the host's identity key.
func (a Ann) Sign(id ed25519.PrivateKey) (Signed, error) { return sign(annDomain, a, a.IDPub, id) }

// Sign encodes r and signs it with the issuer's key.
func (r Revoke) Sign(issuer ed25519.PrivateKey) (Signed, error) {
	return sign(revokeDomain, r, r.Issuer, issuer)
}

// body is a record that can be encoded.
type body interface{ encode() ([]byte, error) }

func sign(domain string, b body, want ed25519.PublicKey, key ed25519.PrivateKey) (Signed, error) {
	if pub, ok := key.Public().(ed25519.PublicKey); !ok || !pub.Equal(want) {
		return Signed{}, fmt.Errorf("sign record: key is not the issuer's: %w", ErrSignature)
	}
	raw, err := b.encode()
	if err != nil {
		return Signed{}, fmt.Errorf("sign record: %w", err)
	}
	return Signed{Bytes: raw, Sig: ed25519.Sign(key, append([]byte(domain), raw...))}, nil
}

// signedBy reports whether pub signed s in domain.
func (s Signed) signedBy(domain string, pub ed25519.PublicKey) bool {
	return len(pub) == ed25519.PublicKeySize && ed25519.Verify(pub, append([]byte(domain), s.Bytes...), s.Sig)
}
