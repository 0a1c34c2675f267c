package join

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/coord/join/starts"
	"github.com/skein-project/skein/internal/durable"
)

// ran makes a state directory look as after a start of its daemon.
func ran(t *testing.T, dir string) {
	t.Helper()
	if _, err := starts.Boot(dir, starts.First(dir), time.Unix(1_700_000_000, 0)); err != nil {
		t.Fatal(err)
	}
}

// legacy takes the checksum off a file, as releases before wrote it.
func legacy(t *testing.T, dir string, f *durable.File) []byte {
	t.Helper()
	text, sealed, err := f.Read(dir)
	if err != nil || !sealed {
		t.Fatalf("%s: %t, %v", f.Name, sealed, err)
	}
	if err := os.WriteFile(f.Path(dir), text, fileMode); err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(text)
}

// TestFlippedBits: one changed bit of what Load reads is named with what the file is
// and what to do, and never loads as something else.
func TestFlippedBits(t *testing.T) {
	dir := t.TempDir()
	if err := Init(dir, initOptions("n1")); err != nil {
		t.Fatal(err)
	}
	ran(t, dir)
	if bad := Check(dir); len(bad) != 0 {
		t.Fatalf("a whole directory: %v", bad)
	}
	id, _, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []*durable.File{durable.Identity, durable.Records, durable.RootKey} {
		good, err := os.ReadFile(f.Path(dir))
		if err != nil {
			t.Fatal(err)
		}
		for i := range good {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << (i % 8)
			if err := os.WriteFile(f.Path(dir), bad, fileMode); err != nil {
				t.Fatal(err)
			}
			_, _, err := Load(dir)
			if f == durable.RootKey {
				_, err = RootKey(dir, id.RootPub)
			}
			damaged, ok := errors.AsType[*durable.DamagedError](err)
			if !ok || damaged.File != f || damaged.Hint() == "" {
				t.Fatalf("%s, byte %d: %v", f.Name, i, err)
			}
			if found := Check(dir); len(found) != 1 {
				t.Fatalf("%s, byte %d: Check says %v", f.Name, i, found)
			}
		}
		if err := os.WriteFile(f.Path(dir), good, fileMode); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFlippedBitsOfOldFiles: an identity of a release without checksums is held
// against the records, and what it has of others (but the cluster's secret and name,
// of which they say nothing) cannot change unnoticed. Seal gives it a checksum.
func TestFlippedBitsOfOldFiles(t *testing.T) {
	dir := t.TempDir()
	if err := Init(dir, initOptions("n1")); err != nil {
		t.Fatal(err)
	}
	ran(t, dir)
	good := legacy(t, dir, durable.Identity)
	root := legacy(t, dir, durable.RootKey)
	legacy(t, dir, durable.Records)
	want, _, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		if err := os.WriteFile(durable.Identity.Path(dir), bad, fileMode); err != nil {
			t.Fatal(err)
		}
		id, _, err := Load(dir)
		switch {
		case errors.Is(err, ErrLeft), err != nil && !durable.IsDamaged(err):
			t.Fatalf("byte %d: %v", i, err)
		case err == nil && (id.Node != want.Node || id.Cluster != want.Cluster || id.WGPub != want.WGPub || !id.IDPub.Equal(want.IDPub) || !id.RootPub.Equal(want.RootPub)):
			t.Fatalf("byte %d: loaded %s with other keys", i, id)
		}
	}
	if err := os.WriteFile(durable.Identity.Path(dir), good, fileMode); err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(root)
	bad[3] ^= 1
	if err := os.WriteFile(durable.RootKey.Path(dir), bad, fileMode); err != nil {
		t.Fatal(err)
	}
	if _, err := RootKey(dir, want.RootPub); !durable.IsDamaged(err) {
		t.Errorf("changed root key: %v", err)
	}
	if err := os.WriteFile(durable.RootKey.Path(dir), root, fileMode); err != nil {
		t.Fatal(err)
	}
	if err := Seal(dir); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*durable.File{durable.Identity, durable.RootKey} {
		if _, sealed, err := f.Read(dir); err != nil || !sealed {
			t.Errorf("%s after Seal: %t, %v", f.Name, sealed, err)
		}
	}
	if again, _, err := Load(dir); err != nil || again.String() != want.String() || !again.IDPub.Equal(want.IDPub) {
		t.Errorf("after Seal: %v, %v", again, err)
	}
}

// TestMissingFiles: a directory of a member without its identity is not one that
// belongs to no cluster, and one without the records says where they are.
func TestMissingFiles(t *testing.T) {
	s := newSite(t)
	ran(t, s.dir)
	tok := s.token(1)
	for _, f := range []*durable.File{durable.Identity, durable.Records} {
		good, err := os.ReadFile(f.Path(s.dir))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(f.Path(s.dir)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Load(s.dir); !durable.IsDamaged(err) || !strings.Contains(err.Error(), "missing") {
			t.Errorf("without %s: %v", f.Name, err)
		}
		if f == durable.Identity {
			if err := Init(s.dir, initOptions("n1")); !durable.IsDamaged(err) {
				t.Errorf("init without identity: %v", err)
			}
			if err := Join(t.Context(), tok, s.dir, s.options("n1")); !durable.IsDamaged(err) {
				t.Errorf("join without identity: %v", err)
			}
		}
		if err := os.WriteFile(f.Path(s.dir), good, fileMode); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLostInvites: a sponsor that lost its invites goes on without them, and numbers
// its certificates above those that it issued.
func TestLostInvites(t *testing.T) {
	s := newSite(t)
	s.admit("n2")
	last := s.records().LastSerial(s.id.RootPub)
	if last < 2 {
		t.Fatalf("serial %d", last)
	}
	text, err := os.ReadFile(durable.Invites.Path(s.dir))
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 4
	if err := os.WriteFile(durable.Invites.Path(s.dir), text, fileMode); err != nil {
		t.Fatal(err)
	}
	invites, err := OpenInvites(s.dir)
	if !durable.IsDamaged(err) || invites == nil || len(invites.List()) != 0 {
		t.Fatalf("damaged invites: %v", err)
	}
	if _, err := NewSponsor(SponsorOptions{
		Identity: s.id, RootKey: s.rootKey, Invites: invites, Records: s.records, OnAdmit: s.onAdmit, Wall: s.wall,
	}); err != nil {
		t.Fatal(err)
	}
	if n := invites.nextSerial(); n != last+1 {
		t.Errorf("next serial %d, want %d", n, last+1)
	}
}
