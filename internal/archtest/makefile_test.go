package archtest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	goTest   = regexp.MustCompile(`\$\(GO\) test .*`)
	selected = regexp.MustCompile(` -(run|bench|skip) ('[^']*'|\S+)`)
	packages = regexp.MustCompile(`\./[\w./-]+`)
	fuzzed   = regexp.MustCompile(`FUZZPKGS="([^"]*)"`)
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
)

// testsOf are the functions of tests in a package, or in those below it.
func testsOf(t *testing.T, pattern string) (names []string) {
	t.Helper()
	dir, below := strings.CutSuffix(pattern, "/...")
	dir = filepath.Join("..", "..", dir)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != dir && !below {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range testFunc.FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return names
}

// TestMakefile: each test, benchmark and package that a recipe names exists, so that
// none proves nothing after a change of names.
func TestMakefile(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	wrong, looked := missing(t, string(text))
	for _, w := range wrong {
		t.Error(w)
	}
	if looked < 30 {
		t.Errorf("only %d patterns found", looked)
	}
	bad := "\t$(GO) test -run 'Makefile|NoSuch' ./internal/archtest\n\t$(MAKE) fuzz FUZZPKGS=\"./internal/archtest ./access\"\n"
	if wrong, _ := missing(t, bad); len(wrong) != 2 {
		t.Errorf("noticed %q", wrong)
	}
}

// missing are the patterns of recipes that match nothing.
func missing(t *testing.T, text string) (wrong []string, looked int) {
	t.Helper()
	for _, line := range goTest.FindAllString(text, -1) {
		var names []string
		if !packages.MatchString(line) {
			continue // of the directory where it runs
		}
		for _, p := range packages.FindAllString(line, -1) {
			names = append(names, testsOf(t, p)...)
		}
		for _, m := range selected.FindAllStringSubmatch(line, -1) {
			kind := "Test"
			if m[1] == "bench" {
				kind = "Benchmark"
			}
			for one := range strings.SplitSeq(strings.Trim(m[2], "'"), "|") {
				one, _, _ = strings.Cut(strings.ReplaceAll(one, "$$", "$"), "/")
				if one == "xxx" || strings.Contains(one, "$f") {
					continue
				}
				looked++
				if !anyMatches(names, kind, one) {
					wrong = append(wrong, fmt.Sprintf("no %s matches %q: %s", kind, one, line))
				}
			}
		}
	}
	for _, m := range fuzzed.FindAllStringSubmatch(text, -1) {
		for p := range strings.FieldsSeq(m[1]) {
			looked++
			if !anyMatches(testsOf(t, p), "Fuzz", ".") {
				wrong = append(wrong, fmt.Sprintf("nothing to fuzz in %s", p))
			}
		}
	}
	return wrong, looked
}

func anyMatches(names []string, kind, pattern string) bool {
	re := regexp.MustCompile(pattern)
	for _, n := range names {
		if strings.HasPrefix(n, kind) && re.MatchString(n) {
			return true
		}
	}
	return false
}
