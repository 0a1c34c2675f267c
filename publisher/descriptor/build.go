package descriptor

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"fmt"
	"strings"
	"time"
)

const (
	// CertLifetime is how long the certificates of a built descriptor last. It
	// is what tor uses, so that the descriptor does not stand out.
	CertLifetime = 54 * time.Hour

	// padTo is the block in which the middle layer grows.
	padTo = 10_000
)

// Params is what a descriptor is built from.
type Params struct {
	Key      SecretKey // of the master address
	Period   Period
	Revision uint64
	Points   []Point
	Header   []string          // see CommonHeader
	Clients  []*ecdh.PublicKey // none: anyone who knows the address
	Now      time.Time
	Entropy  [32]byte // fresh from a good random source
}

// Built is a descriptor ready to post.
type Built struct {
	Text []byte
	// Probe is the key of a client made for Check; it is nil if discovery is
	// not restricted. It ends with the descriptor.
	Probe *ecdh.PrivateKey
}

// Build makes and signs a descriptor. It refuses points that clients would
// refuse, and a result that directories would.
func Build(p Params) (Built, error) {
	if err := usable(p.Points); err != nil {
		return Built{}, fmt.Errorf("build descriptor: %w", err)
	}
	if len(p.Clients) > MaxClients {
		return Built{}, fmt.Errorf("build descriptor: %w: %d client keys, at most %d", ErrTooLarge, len(p.Clients), MaxClients)
	}
	for _, line := range p.Header {
		if err := headerLine(line); err != nil {
			return Built{}, fmt.Errorf("build descriptor: %w", err)
		}
	}
	by := p.Key.blind(p.Period)
	subcred := p.Key.Address().Subcredential(p.Period)
	seed := p.seed(by.public)
	signing := newStream(seed, "signing key").bytes32()
	key := ed25519.NewKeyFromSeed(signing[:])
	expires := p.Now.Add(CertLifetime)

	l := layer{name: layerInner, blinded: by.public, subcred: subcred, revision: p.Revision}
	m, probe, err := restrict(p.Clients, &l, seed)
	if err != nil {
		return Built{}, fmt.Errorf("build descriptor: %w", err)
	}
	m.body = l.seal(p.inner(key, expires, seed), salt(seed, layerInner))

	text := m.encode()
	text = append(text, make([]byte, (padTo-len(text)%padTo)%padTo)...)
	l = layer{name: layerMiddle, blinded: by.public, subcred: subcred, revision: p.Revision}
	out := encodeOuter(by, key, expires, p.Revision, l.seal(text, salt(seed, layerMiddle)))
	if len(out) > MaxSize {
		return Built{}, fmt.Errorf("build descriptor: %w: %d bytes, at most %d", ErrTooLarge, len(out), MaxSize)
	}
	return Built{Text: out, Probe: probe}, nil
}

// usable checks what clients insist on.
func usable(points []Point) error {
	if len(points) == 0 {
		return ErrNoPoints
	}
	if len(points) > MaxPoints {
		return fmt.Errorf("%w: %d, at most %d", ErrTooMany, len(points), MaxPoints)
	}
	seen := make(map[Fingerprint]bool, len(points))
	for _, p := range points {
		if seen[p.Relay] {
			return fmt.Errorf("%w: %s", ErrDuplicate, p.Relay)
		}
		seen[p.Relay] = true
		if relay, err := relayOf([]byte(p.Links)); err != nil || relay != p.Relay {
			return fmt.Errorf("%w: link specifiers are not of %s", ErrPoint, p.Relay)
		}
	}
	return nil
}

// headerLine checks that a carried line is one whole item, and none that Build
// writes itself or must not write.
func headerLine(line string) error {
	all, err := items([]byte(line), 2)
	if err != nil || len(all) != 1 {
		return fmt.Errorf("%w: carried line %.40q is not one item", ErrSyntax, line)
	}
	switch k := all[0].keyword; k {
	case "create2-formats", "pow-params", "introduction-point":
		return fmt.Errorf("%w: carried line %s", ErrSyntax, k)
	}
	return nil
}

// seed makes the entropy depend on what is built: if a caller gives the same
// entropy twice, no two texts are encrypted with the same stream all the same.
func (p Params) seed(b Blinded) [32]byte {
	parts := [][]byte{p.Entropy[:], b[:], int8s(p.Revision, uint64(len(p.Points)), uint64(len(p.Header)), uint64(p.Now.UnixNano()))}
	for _, pt := range p.Points {
		parts = append(parts, int8s(uint64(len(pt.Links))), []byte(pt.Links), pt.OnionKey[:], pt.AuthKey[:], pt.EncKey[:], pt.EncCert[:])
	}
	for _, line := range p.Header {
		parts = append(parts, int8s(uint64(len(line))), []byte(line))
	}
	for _, c := range p.Clients {
		parts = append(parts, c.Bytes())
	}
	return sum3(parts...)
}

func salt(seed [32]byte, name string) []byte {
	out := make([]byte, saltLen)
	newStream(seed, "salt "+name).fill(out)
	return out
}

// inner writes the points in random order, so that their order tells nothing
// about the hosts.
func (p Params) inner(key ed25519.PrivateKey, expires time.Time, seed [32]byte) []byte {
	out := []byte("create2-formats 2\n" + strings.Join(p.Header, ""))
	signer := [32]byte(key.Public().(ed25519.PublicKey))
	sign := func(message []byte) []byte { return ed25519.Sign(key, message) }
	for _, pt := range shuffled(newStream(seed, "order"), p.Points) {
		out = pt.append(out, signer, expires, sign)
	}
	return out
}

// restrict fills the entries of clients, and adds the cookie to the inner
// layer if there are any. Without clients all entries are random.
func restrict(clients []*ecdh.PublicKey, inner *layer, seed [32]byte) (m middle, probe *ecdh.PrivateKey, err error) {
	random := newStream(seed, "clients")
	ephemeral, err := x25519(random)
	if err != nil {
		return m, nil, err
	}
	m.ephemeral = [32]byte(ephemeral.PublicKey().Bytes())
	if len(clients) > 0 {
		if probe, err = x25519(random); err != nil {
			return m, nil, err
		}
		var cookie [cookieLen]byte
		random.fill(cookie[:])
		inner.cookie = cookie[:]
		for _, c := range append([]*ecdh.PublicKey{probe.PublicKey()}, clients...) {
			id, key, err := clientSecret(inner.subcred, ephemeral, c)
			if err != nil {
				return m, nil, err
			}
			var iv [ivLen]byte
			random.fill(iv[:])
			m.clients = append(m.clients, sealCookie(cookie, iv, id, key))
		}
	}
	for len(m.clients) == 0 || len(m.clients)%authMultiple != 0 {
		var b clientBox
		random.fill(b.id[:])
		random.fill(b.iv[:])
		random.fill(b.cookie[:])
		m.clients = append(m.clients, b)
	}
	m.clients = shuffled(random, m.clients)
	return m, probe, nil
}

func x25519(s stream) (*ecdh.PrivateKey, error) {
	raw := s.bytes32()
	return ecdh.X25519().NewPrivateKey(raw[:])
}
