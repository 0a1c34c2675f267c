package durable

import (
	"os"
	"strings"
	"testing"
)

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
