package durable

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentedDowngrade: after the command of docs/operations.md no file has a
// checksum, and each has what was written.
func TestDocumentedDowngrade(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile("`(sed -i [^`]+)`").FindStringSubmatch(string(text))
	if command == nil {
		t.Fatal("no command")
	}
	dir := t.TempDir()
	at := func(f *File) string {
		switch f {
		case Repairs:
			return filepath.Join(dir, "log")
		case Generation:
			return filepath.Join(dir, "onion")
		}
		return dir
	}
	files := append(Sealed(), Repairs, Generation)
	for _, f := range files {
		if err := os.MkdirAll(at(f), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := f.Write(at(f), []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	sed := exec.CommandContext(t.Context(), "sh", "-c", command[1])
	sed.Dir = dir
	if out, err := sed.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, f := range files {
		if data, sealed, err := f.Read(at(f)); err != nil || sealed || string(data) != "{}\n" {
			t.Errorf("%s: %q, with a checksum: %t, %v", f.Name, data, sealed, err)
		}
	}
}

// TestCatalogIsDocumented: every file is in the table of docs/operations.md, with
// whether it is secret.
func TestCatalogIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## Files of the state directory")
	table, _, _ = strings.Cut(table, "\n## ")
	for _, f := range append(Sealed(), Votes, Repairs, Generation) {
		row := ""
		for line := range strings.Lines(table) {
			if first, _, ok := strings.Cut(strings.TrimPrefix(line, "|"), "|"); ok && (strings.Contains(first, "`"+f.Name+"`") || strings.Contains(first, "/"+f.Name+"`")) {
				row = line
			}
		}
		cells := strings.Split(row, "|")
		if len(cells) != 6 {
			t.Errorf("%s has no row", f.Name)
			continue
		}
		if secret := strings.TrimSpace(cells[3]) == "yes"; secret != f.Secret && f != Generation { // in a row with the keys
			t.Errorf("%s: secret %t, the table says %s", f.Name, f.Secret, cells[3])
		}
		if strings.Contains(cells[4], "refuses") && f.Next == "" {
			t.Errorf("%s: the table says that it is refused, and there is nothing to do", f.Name)
		}
		if f.What == "" || f.Back == "" {
			t.Errorf("%s says nothing", f.Name)
		}
	}
}
