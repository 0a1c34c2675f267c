package onion

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/skein-project/skein/publisher/descriptor"
)

// TestSealedKey: only the member that it is for opens a sealed key, and only
// as that of the address.
func TestSealedKey(t *testing.T) {
	own, other := ed25519.NewKeyFromSeed(make([]byte, 32)), ed25519.NewKeyFromSeed([]byte("another seed of thirty-two bytes"))
	k := descriptor.NewSecretKey([32]byte{7})
	sealed, err := Seal(k, own.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(sealed), string(k.File()[32:])) {
		t.Error("the key stands there")
	}
	if got, err := openKey(k.Address(), sealed, own); err != nil || got != k {
		t.Errorf("own: %v", err)
	}
	flipped := append([]byte{}, sealed...)
	flipped[len(flipped)-1] ^= 1
	for name, try := range map[string]func() (descriptor.SecretKey, error){
		"another member": func() (descriptor.SecretKey, error) { return openKey(k.Address(), sealed, other) },
		"another address": func() (descriptor.SecretKey, error) {
			return openKey(descriptor.NewSecretKey([32]byte{8}).Address(), sealed, own)
		},
		"a flipped bit": func() (descriptor.SecretKey, error) { return openKey(k.Address(), flipped, own) },
		"cut off":       func() (descriptor.SecretKey, error) { return openKey(k.Address(), sealed[:20], own) },
	} {
		if got, err := try(); err == nil || !got.IsZero() {
			t.Errorf("%s opens it", name)
		}
	}
}

// TestKeyring: what was added is there after a restart, in tor's form; a key
// that others can read, or of another address, is left out and named.
func TestKeyring(t *testing.T) {
	dir := t.TempDir()
	open := func() *keyring {
		r, err := openKeyring(dir)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a, b, c := descriptor.NewSecretKey([32]byte{1}), descriptor.NewSecretKey([32]byte{2}), descriptor.NewSecretKey([32]byte{3})
	r := open()
	for _, k := range []descriptor.SecretKey{a, b, c} {
		if err := r.add(k); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(r.at(a.Address()), secretFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	if text, err := os.ReadFile(filepath.Join(r.at(a.Address()), addressFile)); err != nil || string(text) != a.Address().String()+"\n" {
		t.Errorf("hostname %q %v", text, err)
	}
	if err := os.Chmod(filepath.Join(r.at(b.Address()), secretFile), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.at(c.Address()), secretFile), a.File(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "garbage"), 0o700); err != nil {
		t.Fatal(err)
	}
	r = open()
	if got := r.addresses(); len(got) != 1 || got[0] != a.Address() {
		t.Errorf("addresses %v", got)
	}
	cut := filepath.Join(r.at(c.Address()), secretFile)
	if err := os.WriteFile(cut, c.File()[:60], 0o600); err != nil {
		t.Fatal(err)
	}
	if bad := strings.Join(open().problems(), "\n"); !strings.Contains(bad, cut+": ") || !strings.Contains(bad, "secret key file of 60 bytes") {
		t.Errorf("problems with a key that was cut off: %s", bad)
	}
	if bad := strings.Join(r.problems(), "\n"); len(r.problems()) != 3 || !strings.Contains(bad, "mode 0640") || !strings.Contains(bad, "is the key of "+a.Address().String()) {
		t.Errorf("problems %s", bad)
	}
}

func TestFloorsFile(t *testing.T) {
	f := floorsFile{filepath.Join(t.TempDir(), "deep", "x.json")}
	if got, err := f.Load(); err != nil || got != nil {
		t.Fatalf("%v %v", got, err)
	}
	want := map[descriptor.Period]uint64{{Number: 5, Length: 1440}: 1 << 62, {Number: 6, Length: 1440}: 7}
	if err := f.Save(want); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Load(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v %v", got, err)
	}
	if err := os.WriteFile(f.name, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Load(); err != nil || got != nil {
		t.Errorf("garbage: %v %v", got, err)
	}
}
