package archtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLintRules compares the lists of pure packages in .golangci.yml with the
// one here, from which they are derived: a pure package that the linter does
// not know could read the clock.
func TestLintRules(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", ".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	decides := slices.Sorted(slices.Values(slices.Concat(vocabulary, pure)))

	_, files, _ := strings.Cut(string(text), "          files:\n")
	files, _, ok := strings.Cut(files, "          deny:\n")
	var want strings.Builder
	for _, p := range decides {
		want.WriteString(`            - "**/` + p + `/*.go"` + "\n")
	}
	want.WriteString(`            - "!$test"` + "\n")
	if !ok || files != want.String() {
		t.Errorf(".golangci.yml: depguard's files must be those of the pure packages:\n%s", want.String())
	}

	except := "      - path-except: ^(" + strings.Join(decides, "|") + ")/[^/]+$\n        linters: [forbidigo]\n"
	if !strings.Contains(string(text), except) {
		t.Errorf(".golangci.yml: the clock must be forbidden in the pure packages:\n%s", except)
	}
}
