package client_test

import (
	"os"
	"strings"
	"testing"
)

// TestReadme: the program in README.md is Example, which compiles.
func TestReadme(t *testing.T) {
	part := func(file, from, to string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), from)
		rest, _, ok := strings.Cut(rest, to)
		if !ok {
			t.Fatalf("%s has nothing between %q and %q", file, from, to)
		}
		return rest
	}
	shown := part("../README.md", "```go\n", "\n```\n")
	if want := strings.ReplaceAll("\n"+part("example_test.go", "func Example() {\n", "\n}\n"), "\n\t", "\n")[1:]; shown != want {
		t.Errorf("README.md must show\n%s", want)
	}
}
