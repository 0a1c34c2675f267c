package member

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
)

// MaxSlices is the largest number of sponsor slices that a cluster's network is
// split into.
const MaxSlices = 8

// minSliceBits is the longest prefix of a slice: 6 usable addresses.
const minSliceBits = 29

// CheckCIDR reports why p cannot be a cluster's IPv4 network.
func CheckCIDR(p netip.Prefix) error {
	switch {
	case !p.IsValid() || !p.Addr().Is4():
		return fmt.Errorf("network %s is not IPv4", p)
	case p != p.Masked():
		return fmt.Errorf("network %s has host bits set, want %s", p, p.Masked())
	case p.Bits() < 8 || p.Bits() > minSliceBits:
		return fmt.Errorf("network %s: prefix length must be 8-%d", p, minSliceBits)
	}
	return nil
}

// Slices splits a cluster's network into the disjoint ranges that its sponsors
// own, at most MaxSlices, the first host's first.
func Slices(network netip.Prefix) []netip.Prefix {
	if CheckCIDR(network) != nil {
		return nil
	}
	bits := network.Bits()
	n := 1
	for n < MaxSlices && bits < minSliceBits {
		n, bits = n*2, bits+1
	}
	base := v4(network.Addr())
	out := make([]netip.Prefix, n)
	for i := range out {
		out[i] = netip.PrefixFrom(addr4(base+uint32(i)<<(32-bits)), bits)
	}
	return out
}

// AllocIP4 chooses the address of an identity in slice: it starts at a hash of
// the key and probes to the next address that is not taken. The first and the
// last address of the slice are never given.
func AllocIP4(slice netip.Prefix, id ed25519.PublicKey, taken func(netip.Addr) bool) (netip.Addr, error) {
	if err := CheckCIDR(slice); err != nil {
		return netip.Addr{}, fmt.Errorf("allocate address: %w", err)
	}
	usable := uint32(1)<<(32-slice.Bits()) - 2
	h := sha256.Sum256(append([]byte("skein/ip4/1\n"), id...))
	start := uint32(binary.BigEndian.Uint64(h[:8]) % uint64(usable))
	base := v4(slice.Addr()) + 1
	// A table has at most MaxMembers addresses; more probes than that and a
	// margin cannot be needed.
	for i := range min(usable, 4*MaxMembers) {
		if a := addr4(base + (start+i)%usable); !taken(a) {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("allocate address in %s: %w", slice, ErrNoAddress)
}

// ULAPrefix is the cluster's IPv6 network, a /48 derived from its id.
func ULAPrefix(c ClusterID) netip.Prefix {
	h := sha256.Sum256(append([]byte("skein/ula/1\n"), c[:]...))
	a := [16]byte{0: 0xfd}
	copy(a[1:6], h[:5])
	return netip.PrefixFrom(netip.AddrFrom16(a), 48)
}

// ULA is a host's IPv6 address: derived from the cluster id and the identity
// key, so that the address certifies the key.
func ULA(c ClusterID, id ed25519.PublicKey) netip.Addr {
	a := ULAPrefix(c).Addr().As16()
	h := sha256.Sum256(append([]byte("skein/host/1\n"), id...))
	copy(a[6:], h[:10])
	return netip.AddrFrom16(a)
}

func v4(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

func addr4(v uint32) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, v)))
}
