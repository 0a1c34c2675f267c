package durable

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var testFile = File{Name: "thing.json", What: "the thing", Secret: true, Back: "from nowhere", Next: "give up"}

// TestSealed flips each bit of a file, cuts it everywhere and puts another in its
// place: what is read is what was written, or an error that says what to do.
func TestSealed(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := testFile.Read(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("no file: %v", err)
	}
	type content struct{ A, B string }
	want := content{"secret", "# sha256 \n# sha256 "}
	if err := testFile.WriteJSON(dir, want); err != nil {
		t.Fatal(err)
	}
	name := testFile.Path(dir)
	good, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	read := func(b []byte) (content, error) {
		t.Helper()
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		var got content
		_, err := testFile.ReadJSON(dir, &got)
		return got, err
	}
	for i := range good {
		bad := [][]byte{good[:i]}
		for bit := range 8 {
			bad = append(bad, slices.Concat(good[:i], []byte{good[i] ^ 1<<bit}, good[i+1:]))
		}
		for _, b := range bad {
			got, err := read(b)
			damaged, ok := errors.AsType[*DamagedError](err)
			switch {
			case err == nil && got != want:
				t.Fatalf("damage at %d: read %+v", i, got)
			case err != nil && !ok:
				t.Fatalf("damage at %d: %v", i, err)
			case err != nil && (damaged.Hint() != "give up" || !strings.Contains(err.Error(), "the thing") || strings.Contains(err.Error(), "ecret")):
				t.Fatalf("damage at %d: %v, %s", i, err, damaged.Hint())
			}
		}
	}
	other := File{Name: "other.json", What: "another thing"}
	if err := other.WriteJSON(dir, want); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other.Path(dir), name); err != nil {
		t.Fatal(err)
	}
	if err := testFile.Check(dir); !IsDamaged(err) {
		t.Fatalf("another file in its place: %v", err)
	}
}

// TestUnsealed: what a release without checksums wrote is read as it is.
func TestUnsealed(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"", "12\n", "{\n}\n"} {
		if err := os.WriteFile(testFile.Path(dir), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		data, sealed, err := testFile.Read(dir)
		if err != nil || sealed || string(data) != text {
			t.Fatalf("%q: %q, %t, %v", text, data, sealed, err)
		}
		if err := testFile.Write(dir, data); err != nil {
			t.Fatal(err)
		}
		again, sealed, err := testFile.Read(dir)
		if err != nil || !sealed || strings.TrimSpace(string(again)) != strings.TrimSpace(text) {
			t.Fatalf("%q written again: %q, %t, %v", text, again, sealed, err)
		}
	}
	small := File{Name: testFile.Name, Limit: 3}
	if err := small.Check(dir); !IsDamaged(err) {
		t.Errorf("too large: %v", err)
	}
	if err := small.Check(filepath.Join(dir, "gone")); err != nil {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestSealedLine(t *testing.T) {
	line := []byte(`{"a":[1,2]}`)
	sealed := SealLine(line)
	if got, ok := OpenLine(sealed, "}]"); !ok || !bytes.Equal(got, line) {
		t.Fatalf("%q, %t", got, ok)
	}
	if got, ok := OpenLine(line, "}]"); !ok || !bytes.Equal(got, line) {
		t.Fatalf("without a checksum: %q, %t", got, ok)
	}
	for i := range sealed {
		for bit := range 8 {
			bad := bytes.Clone(sealed)
			bad[i] ^= 1 << bit
			if got, ok := OpenLine(bad, "}]"); ok && !bytes.Equal(got, line) {
				t.Fatalf("bit %d of byte %d: %q", bit, i, got)
			}
		}
	}
}
