package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNamesOfWhoIsGone: README and all documents say the same of the name of a host
// that left or was removed: it stays taken for some weeks, so whoever comes back
// before that needs another one.
func TestNamesOfWhoIsGone(t *testing.T) {
	files, err := filepath.Glob("*.md")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d documents, %v", len(files), err)
	}
	again := regexp.MustCompile(`\b(join|joins|joined) (again|anew)\b|\brejoins?\b|\bto come back\b`)
	found := 0
	for _, file := range append(files, "../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text = regexp.MustCompile(`\s+`).ReplaceAll(text, []byte(" "))
		for _, sentence := range regexp.MustCompile(`[.;|]( |$)`).Split(string(text), -1) {
			if !again.MatchString(sentence) || strings.Contains(sentence, "not to come back") {
				continue
			}
			found++
			if !regexp.MustCompile(`\b(another|a new|other|the new) names?\b`).MatchString(sentence) {
				t.Errorf("%s does not say under which name: %q", file, sentence)
			}
		}
		if taken := regexp.MustCompile(`name[^.]* (stay|stays) taken[^.]* weeks`).Match(text); !taken && (file == "../README.md" || file == "operations.md" || file == "cli.md") {
			t.Errorf("%s does not say how long a name stays taken", file)
		}
	}
	if found < 8 {
		t.Errorf("%d places found", found)
	}
}

// TestTablesAreWhole: each row of a table has as many cells as its head; a bar that
// is not escaped, in code too, cuts a cell in two.
func TestTablesAreWhole(t *testing.T) {
	files, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, file := range append(files, "../README.md", "../ARCHITECTURE.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cells, code := 0, false
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "```") {
				code = !code
			}
			if code || !strings.HasPrefix(line, "|") {
				cells = 0
				continue
			}
			rows++
			n := strings.Count(line, "|") - strings.Count(line, `\|`)
			if cells == 0 {
				cells = n
			}
			if n != cells {
				t.Errorf("%s: %d bars, the head of its table has %d: %s", file, n, cells, line)
			}
		}
	}
	if rows < 300 {
		t.Errorf("%d rows found", rows)
	}
}
