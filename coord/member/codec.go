package member

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/skein-project/skein/cluster"
)

// Layout of records, all integers big-endian, text as one length byte and the
// bytes. Bytes after the last field are covered by the signature and ignored:
// a later version may append fields.
//
//	cert:   1, cluster 16, node text, id_pub 32, ip4 4, ip6 16, caps 1
//	        (bit 0 sponsor, 1 renewed), [slice address 4, slice bits 1],
//	        serial 8, issued 8, expires 8, since 8, issuer 32
//	ann:    1, id_pub 32, wg_pubkey 32, flags 1 (bit 0 nat, 1 witness, 2 next,
//	        3 onion, 4 onion client), epoch 8, issued 8, expires 8, priority 4,
//	        zone text, endpoints: count 1, each address length 1 (4 or 16),
//	        address, port 2, [next 32, at 8], [onion 32], [onion client 32]
//	revoke: 1, cluster 16, id_pub 32, issued 8, expires 8, issuer 32, reason text
const layout = 1

const (
	capSponsor = 1 << 0
	capRenewed = 1 << 1

	flagNAT         = 1 << 0
	flagWitness     = 1 << 1
	flagNext        = 1 << 2
	flagOnion       = 1 << 3
	flagOnionClient = 1 << 4
)

// maxNumber bounds every number of a record: exact in a float64.
const maxNumber = 1<<53 - 1

// reader takes fields off the front of b. After the first failure it yields
// zero values, and err stays set.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err != nil || len(r.b) < n {
		r.fail("cut short")
		return make([]byte, n)
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: "+format, append([]any{ErrFormat}, args...)...)
	}
}

func (r *reader) u8() uint8     { return r.take(1)[0] }
func (r *reader) u32() uint32   { return binary.BigEndian.Uint32(r.take(4)) }
func (r *reader) key() []byte   { return append([]byte(nil), r.take(32)...) }
func (r *reader) text() string  { return string(r.take(int(r.u8()))) }
func (r *reader) ip4() [4]byte  { return [4]byte(r.take(4)) }
func (r *reader) ip6() [16]byte { return [16]byte(r.take(16)) }

func (r *reader) u64() uint64 {
	v := binary.BigEndian.Uint64(r.take(8))
	if v > maxNumber {
		r.fail("number %d", v)
	}
	return v
}

func (r *reader) layout() {
	if v := r.u8(); r.err == nil && v != layout {
		r.fail("layout %d", v)
	}
}

func appendText(b []byte, s string) []byte { return append(append(b, byte(len(s))), s...) }

func (c Cert) encode() ([]byte, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	b := append([]byte{layout}, c.Cluster[:]...)
	b = appendText(b, string(c.Node))
	b = append(b, c.IDPub...)
	b = append(b, c.IP4.AsSlice()...)
	b = append(b, c.IP6.AsSlice()...)
	switch {
	case c.Sponsor():
		b = append(b, capSponsor)
		b = append(append(b, c.Slice.Addr().AsSlice()...), byte(c.Slice.Bits()))
	case c.Renewed:
		b = append(b, capRenewed)
	default:
		b = append(b, 0)
	}
	for _, v := range []uint64{c.Serial, uint64(c.Issued), uint64(c.Expires), uint64(c.Since)} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return append(b, c.Issuer...), nil
}

// ParseCert reads the content of a certificate. It checks form and bounds, not
// the signature.
func ParseCert(s Signed) (Cert, error) {
	r := reader{b: s.Bytes}
	r.layout()
	c := Cert{Cluster: ClusterID(r.take(16)), Node: cluster.NodeID(r.text()), IDPub: r.key()}
	c.IP4, c.IP6 = netip.AddrFrom4(r.ip4()), netip.AddrFrom16(r.ip6())
	caps := r.u8()
	c.Renewed = caps&capRenewed != 0
	if caps&capSponsor != 0 {
		c.Caps = []string{CapSponsor}
		c.Slice = netip.PrefixFrom(netip.AddrFrom4(r.ip4()), int(r.u8()))
	}
	c.Serial, c.Issued, c.Expires = r.u64(), int64(r.u64()), int64(r.u64())
	c.Since, c.Issuer = int64(r.u64()), r.key()
	if r.err != nil {
		return Cert{}, fmt.Errorf("cert: %w", r.err)
	}
	return c, c.validate()
}

func (c Cert) validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("cert: %w: "+format, append([]any{ErrFormat}, args...)...)
	}
	if _, err := cluster.ParseHostName(string(c.Node)); err != nil {
		return bad("%v", err)
	}
	if len(c.IDPub) != 32 || len(c.Issuer) != 32 {
		return bad("key length")
	}
	if !c.IP4.Is4() || c.IP4.IsUnspecified() || c.IP4.IsMulticast() || c.IP4.IsLoopback() {
		return bad("ip4 %s", c.IP4)
	}
	if c.IP6 != ULA(c.Cluster, c.IDPub) {
		return bad("ip6 %s is not derived from the key", c.IP6)
	}
	if len(c.Caps) > 0 {
		if !c.Sponsor() || c.Renewed {
			return bad("caps %q, renewed %t", c.Caps, c.Renewed)
		}
		if err := CheckCIDR(c.Slice); err != nil {
			return bad("slice: %v", err)
		}
	}
	if c.Serial > maxNumber {
		return bad("serial %d", c.Serial)
	}
	if c.Since <= 0 || c.Since > c.Issued {
		return bad("issued %d, since %d", c.Issued, c.Since)
	}
	return checkTimes("cert", c.Issued, c.Expires)
}

func (a Ann) encode() ([]byte, error) {
	if err := a.validate(); err != nil {
		return nil, err
	}
	var flags byte
	if a.NAT {
		flags |= flagNAT
	}
	if a.Witness {
		flags |= flagWitness
	}
	if a.NextAt != 0 {
		flags |= flagNext
	}
	if !a.Onion.IsZero() {
		flags |= flagOnion
	}
	if a.OnionClient != [32]byte{} {
		flags |= flagOnionClient
	}
	b := append([]byte{layout}, a.IDPub...)
	b = append(append(b, a.WGPub[:]...), flags)
	for _, v := range []uint64{a.Epoch, uint64(a.Issued), uint64(a.Expires)} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	b = binary.BigEndian.AppendUint32(b, a.Priority)
	b = append(appendText(b, a.Zone), byte(len(a.Endpoints)))
	for _, e := range a.Endpoints {
		addr := e.Addr().AsSlice()
		b = append(append(b, byte(len(addr))), addr...)
		b = binary.BigEndian.AppendUint16(b, e.Port())
	}
	if flags&flagNext != 0 {
		b = append(b, a.Next[:]...)
		b = binary.BigEndian.AppendUint64(b, uint64(a.NextAt))
	}
	if flags&flagOnion != 0 {
		b = append(b, a.Onion[:]...)
	}
	if flags&flagOnionClient != 0 {
		b = append(b, a.OnionClient[:]...)
	}
	return b, nil
}

// ParseAnn reads the content of an announcement. It checks form and bounds,
// not the signature.
func ParseAnn(s Signed) (Ann, error) {
	r := reader{b: s.Bytes}
	r.layout()
	a := Ann{IDPub: r.key(), WGPub: [32]byte(r.take(32))}
	flags := r.u8()
	a.NAT, a.Witness = flags&flagNAT != 0, flags&flagWitness != 0
	a.Epoch, a.Issued, a.Expires = r.u64(), int64(r.u64()), int64(r.u64())
	a.Priority, a.Zone = r.u32(), r.text()
	n := int(r.u8())
	if n > MaxEndpoints {
		r.fail("%d endpoints", n)
	}
	for i := 0; i < n && r.err == nil; i++ {
		a.Endpoints = append(a.Endpoints, r.endpoint())
	}
	if flags&flagNext != 0 {
		a.Next, a.NextAt = [32]byte(r.take(32)), int64(r.u64())
		if a.NextAt == 0 {
			r.fail("next key without a time")
		}
	}
	if flags&flagOnion != 0 {
		if a.Onion = Onion(r.take(32)); a.Onion.IsZero() {
			r.fail("onion key is zero")
		}
	}
	if flags&flagOnionClient != 0 {
		if a.OnionClient = [32]byte(r.take(32)); a.OnionClient == [32]byte{} {
			r.fail("onion client key is zero")
		}
	}
	if r.err != nil {
		return Ann{}, fmt.Errorf("ann: %w", r.err)
	}
	return a, a.validate()
}

func (r *reader) endpoint() netip.AddrPort {
	var addr netip.Addr
	switch n := r.u8(); n {
	case 4:
		addr = netip.AddrFrom4(r.ip4())
	case 16:
		addr = netip.AddrFrom16(r.ip6())
	default:
		r.fail("endpoint address of %d bytes", n)
	}
	return netip.AddrPortFrom(addr, binary.BigEndian.Uint16(r.take(2)))
}

func (a Ann) validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("ann: %w: "+format, append([]any{ErrFormat}, args...)...)
	}
	switch {
	case len(a.IDPub) != 32:
		return bad("key length")
	case a.WGPub == [32]byte{}:
		return bad("wireguard key is zero")
	case a.Epoch == 0 || a.Epoch > maxNumber:
		return bad("epoch %d", a.Epoch)
	case len(a.Endpoints) > MaxEndpoints:
		return bad("%d endpoints, at most %d", len(a.Endpoints), MaxEndpoints)
	case len(a.Zone) > MaxZoneLen || !printable(a.Zone):
		return bad("zone %q", a.Zone)
	case a.NextAt < 0 || a.NextAt > maxNumber || (a.NextAt == 0) != (a.Next == [32]byte{}), a.Next == a.WGPub:
		return bad("next key at %d", a.NextAt)
	}
	for _, e := range a.Endpoints {
		ip := e.Addr()
		if !e.IsValid() || e.Port() == 0 || ip.Zone() != "" || ip.Is4In6() || ip.IsUnspecified() || ip.IsMulticast() {
			return bad("endpoint %s", e)
		}
	}
	return checkTimes("ann", a.Issued, a.Expires)
}

func (r Revoke) encode() ([]byte, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	b := append([]byte{layout}, r.Cluster[:]...)
	b = append(b, r.IDPub...)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Issued))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Expires))
	return appendText(append(b, r.Issuer...), r.Reason), nil
}

// ParseRevoke reads the content of a revocation. It checks form and bounds,
// not the signature.
func ParseRevoke(s Signed) (Revoke, error) {
	r := reader{b: s.Bytes}
	r.layout()
	v := Revoke{Cluster: ClusterID(r.take(16)), IDPub: r.key()}
	v.Issued, v.Expires, v.Issuer, v.Reason = int64(r.u64()), int64(r.u64()), r.key(), r.text()
	if r.err != nil {
		return Revoke{}, fmt.Errorf("revoke: %w", r.err)
	}
	return v, v.validate()
}

func (r Revoke) validate() error {
	if len(r.IDPub) != 32 || len(r.Issuer) != 32 {
		return fmt.Errorf("revoke: %w: key length", ErrFormat)
	}
	if len(r.Reason) > MaxReasonLen || !printable(r.Reason) {
		return fmt.Errorf("revoke: %w: reason %q", ErrFormat, r.Reason)
	}
	return checkTimes("revoke", r.Issued, r.Expires)
}

func checkTimes(what string, issued, expires int64) error {
	if issued <= 0 || issued > maxNumber || expires < 0 || expires > maxNumber || (expires != 0 && expires <= issued) {
		return fmt.Errorf("%s: %w: issued %d, expires %d", what, ErrFormat, issued, expires)
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
