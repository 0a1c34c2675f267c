package descriptor

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// seedKey is the key that belongs to the seed 00 01 .. 1f.
func seedKey() SecretKey {
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(i)
	}
	return NewSecretKey(seed)
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestVectors compares with values that were computed by other programs and
// agree with tor.
func TestVectors(t *testing.T) {
	p := Period{20000, 1440}
	k := seedKey()
	a := k.Address()
	b := a.Blind(p)
	sub := a.Subcredential(p)
	service := serviceIndex(b, 1, p)
	node := nodeIndex([32]byte(bytes.Repeat([]byte{0x42}, 32)), Slot{p, [32]byte(bytes.Repeat([]byte{0x43}, 32))})
	disaster := slot(20000, 1440, nil).SRV
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"blinded key", b[:], "427ca6fe435c967b0c66301d38516bfccb7cebe1fa884eec7e35ead956b3ad6e"},
		{"subcredential", sub[:], "8d3dd811da6bdb599acc752a37a8f2450c55e4fc7165f29de61df3798970be3e"},
		{"service index", service[:], "d5e096a310f1150281f6a0ffe33777de1f768cc85990258271d4db9637497c7e"},
		{"node index", node[:], "34ea2d26308f8fc1cacd9657c615f1bd479a14a340174a8485a9b8b92e4531fb"},
		{"disaster SRV", disaster[:], "f916536d94fc4bd9e5caa6d00c06f76f9db50fd157746580ec5ce09b2b19193f"},
	} {
		if hex.EncodeToString(c.got) != c.want {
			t.Errorf("%s is %x, want %s", c.name, c.got, c.want)
		}
	}
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(i)
	}
	if pub := ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey); !bytes.Equal(pub, a[:]) {
		t.Errorf("the key of a seed is not the one of Ed25519")
	}
}

func TestBlindedSignature(t *testing.T) {
	k := seedKey()
	for n := range uint64(20) {
		p := Period{20000 + n, 1440}
		by := k.blind(p)
		msg := []byte(fmt.Sprint("message ", n))
		sig := by.sign(msg)
		if !ed25519.Verify(by.public[:], msg, sig) {
			t.Fatalf("%s: signature does not verify", p)
		}
		if ed25519.Verify(by.public[:], append(msg, 'x'), sig) {
			t.Fatalf("%s: signature verifies for another message", p)
		}
	}
}

func TestAddress(t *testing.T) {
	a := seedKey().Address()
	text := a.String()
	if len(text) != 62 || !strings.HasSuffix(text, ".onion") || a.ID()+".onion" != text {
		t.Fatalf("address %q", text)
	}
	for _, form := range []string{text, a.ID(), strings.ToUpper(a.ID()) + ".onion"} {
		if got, err := ParseAddress(form); err != nil || got != a {
			t.Errorf("ParseAddress(%q) = %v, %v", form, got, err)
		}
	}
	// Addresses of the public network, which other programs made.
	for _, known := range []string{
		"pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd",
		"sp3k262uwy4r2k3ycr5awluarykdpag6a7y33jxop4cs2lu5uz5sseqd",
		"xa4r2iadxm55fbnqgwwi5mymqdcofiu3w6rpbtqn7b2dyn7mgwj64jyd",
	} {
		got, err := ParseAddress(known)
		if err != nil || got.ID() != known {
			t.Errorf("ParseAddress(%q) = %v, %v", known, got, err)
		}
	}
	flip := func(i int) string {
		b := []byte(a.ID())
		b[i] = map[bool]byte{true: 'b', false: 'a'}[b[i] == 'a']
		return string(b)
	}
	for _, bad := range []string{
		"", "x", a.ID()[:55], a.ID() + "a", flip(0), flip(52), flip(55), strings.Replace(a.ID(), a.ID()[:1], "1", 1),
		"expyuzz4wqqyqhjn.onion", strings.Repeat("a", 56), a.ID()[:55] + "\n", strings.Repeat("a", 40) + strings.Repeat("\r", 16),
	} {
		if _, err := ParseAddress(bad); !errors.Is(err, ErrAddress) {
			t.Errorf("ParseAddress(%q): %v", bad, err)
		}
	}
	if _, err := ParseAddress(flip(3)); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("a mistyped character: %v", err)
	}
}

// TestAddressOfSmallOrder has keys that blinding would not move, or that have a
// part of small order.
func TestAddressOfSmallOrder(t *testing.T) {
	for _, key := range []string{
		"0100000000000000000000000000000000000000000000000000000000000000", // the identity
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", // order 2
		"0000000000000000000000000000000000000000000000000000000000000000", // order 4
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05", // order 8
		"0200000000000000000000000000000000000000000000000000000000000000", // not on the curve
	} {
		a := Address(unhex(t, key))
		if _, err := ParseAddress(a.ID()); !errors.Is(err, ErrAddress) {
			t.Errorf("address with key %s: %v", key, err)
		}
		if _, err := ParsePublicKey(a.PublicFile()); !errors.Is(err, ErrAddress) {
			t.Errorf("public key file with key %s: %v", key, err)
		}
	}
}

func TestKeyFiles(t *testing.T) {
	k := seedKey()
	file := k.File()
	if len(file) != 96 {
		t.Fatalf("secret key file has %d bytes", len(file))
	}
	got, err := ParseSecretKey(file)
	if err != nil || got != k {
		t.Fatalf("secret key file does not come back: %v", err)
	}
	if a, err := ParsePublicKey(k.Address().PublicFile()); err != nil || a != k.Address() {
		t.Fatalf("public key file does not come back: %v", err)
	}
	unclamped := bytes.Clone(file)
	unclamped[32] |= 1
	for _, bad := range [][]byte{nil, file[:95], append(bytes.Clone(file), 0), unclamped, k.Address().PublicFile(), bytes.ToUpper(file)} {
		if _, err := ParseSecretKey(bad); !errors.Is(err, ErrKey) {
			t.Errorf("ParseSecretKey of %d bytes: %v", len(bad), err)
		}
	}
	for _, bad := range [][]byte{nil, file, k.Address().PublicFile()[:63]} {
		if _, err := ParsePublicKey(bad); !errors.Is(err, ErrKey) {
			t.Errorf("ParsePublicKey of %d bytes: %v", len(bad), err)
		}
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	k := seedKey()
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q", "%d"} {
		for _, v := range []any{k, &k, struct{ K SecretKey }{k}, Params{Key: k}, k.blind(Period{1, 1})} {
			text := strings.ToLower(fmt.Sprintf(format, v))
			if !strings.Contains(text, redacted) {
				t.Errorf("%s of %T prints %.200q", format, v, text)
			}
		}
	}
	if text, err := k.MarshalText(); err != nil || string(text) != redacted {
		t.Errorf("MarshalText: %s, %v", text, err)
	}
}
