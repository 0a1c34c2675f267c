package archtest

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// kindOf names the list of the rules that a package stands in, as docs/packages.md shows it.
func kindOf(rel string) string {
	switch {
	case slices.Contains(vocabulary, rel):
		return "vocabulary"
	case slices.Contains(pure, rel):
		return "pure"
	case slices.Contains(leaves, rel):
		return "leaf"
	case isFree(rel):
		return "program"
	}
	for _, list := range []struct {
		kind  string
		rules map[string][]string
	}{{"adapter", adapters}, {"room", rooms}, {"top", top}, {"tests", testOnly}} {
		if _, ok := list.rules[rel]; ok {
			return list.kind
		}
	}
	return "?"
}

// TestPackagesPage: docs/packages.md has each package with the first sentence of its doc.go.
func TestPackagesPage(t *testing.T) {
	var page bytes.Buffer
	page.WriteString(`# Packages

Generated from the packages' own documentation (` + "`SKEIN_UPDATE=1 go test ./internal/archtest`" + `); ARCHITECTURE.md says how they hang together,
` + "`make map`" + ` prints their sizes and imports. *Vocabulary* is what all share. *Pure* packages decide: values in, values out. *Leaves* are helpers that import nothing of
ours. *Adapters* do I/O and do not import each other, but for what lies below one of them. *Rooms* are the parts of a host above these; *top* knows them all.

| Package | Kind | |
|---|---|---|
`)
	begin := regexp.MustCompile(`^(Package|Command) \S+ `)
	for _, p := range load(t) {
		rel, ok := ours(p.ImportPath)
		if !ok || len(p.GoFiles) == 0 {
			continue
		}
		doc := strings.ReplaceAll(begin.ReplaceAllString(p.Doc, ""), "|", `\|`)
		page.WriteString("| `" + rel + "` | " + kindOf(rel) + " | " + doc + " |\n")
	}
	path := filepath.Join("..", "..", "docs", "packages.md")
	if os.Getenv("SKEIN_UPDATE") == "1" {
		if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil { //nolint:gosec // a page for everybody
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, page.Bytes()) {
		t.Errorf("docs/packages.md is not what the packages say (%v): SKEIN_UPDATE=1 go test ./internal/archtest", err)
	}
}

// TestArchitecturePage: ARCHITECTURE.md is short, and every file and directory that it names
// is there.
func TestArchitecturePage(t *testing.T) {
	root := filepath.Join("..", "..")
	for _, page := range []string{"ARCHITECTURE.md", "docs/walkthroughs.md"} {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("\n")); n > 200 {
			t.Errorf("%s has %d lines, at most 200 are allowed", page, n)
		}
		names := 0
		for _, m := range regexp.MustCompile("`([a-z][A-Za-z0-9_.-]*/[A-Za-z0-9_./*-]*)`").FindAllSubmatch(text, -1) {
			names++
			name := strings.TrimSuffix(strings.TrimSuffix(string(m[1]), "..."), "/")
			if name == "skein-crew/1" {
				continue // a protocol
			}
			if found, err := filepath.Glob(filepath.Join(root, name)); err != nil || len(found) == 0 {
				t.Errorf("%s names %s, which is not there (%v)", page, name, err)
			}
		}
		if names < 20 {
			t.Errorf("%s: %d names found", page, names)
		}
	}
}
