package main

import (
	"bytes"
	"errors"
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestJointSource: a joint program has what go test finds in the files of each package, in
// its order, and nothing else.
func TestJointSource(t *testing.T) {
	files := map[string]string{
		"/m/a/a_test.go":       "package a\nfunc TestOne(t *testing.T) {}\nfunc Testing() {}\nfunc (x) TestOfX(t *testing.T) {}\nfunc Test(t *testing.T) {}\nfunc BenchmarkOne(b *testing.B) {}",
		"/m/a/b_linux_test.go": "package a\nfunc FuzzTwo(f *testing.F) {}\nfunc TestMain(m *testing.M) {}",
		"/m/a/example_test.go": "package a_test\nfunc Example() {\n\t// Output: 7\n}\nfunc ExampleT() {\n\t// not compared\n}\nfunc ExampleU() {\n\t// Unordered output:\n\t// 1\n\t// 2\n}",
		"/m/b/export_test.go":  "package b\nvar X = x",
		"/m/b/b_test.go":       "package b_test\nfunc TestX(t *testing.T) {}",
	}
	pkgs := []goPackage{
		{ImportPath: "m/a", Dir: "/m/a", TestGoFiles: []string{"a_test.go", "b_linux_test.go"}, XTestGoFiles: []string{"example_test.go"}},
		{ImportPath: "m/b", Dir: "/m/b", TestGoFiles: []string{"export_test.go"}, XTestGoFiles: []string{"b_test.go"}},
	}
	read := func(file string) ([]byte, error) {
		text, ok := files[file]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return []byte(text), nil
	}
	text, overlay, err := jointSource(pkgs, read)
	if err != nil {
		t.Fatal(err)
	}
	source, err := format.Source(text)
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	begins := strings.Index(string(source), `"unsafe"`)
	got := strings.Fields(string(source)[begins:strings.Index(string(source), "func TestMain")])
	for _, want := range []string{
		`p0 "m/a" x0 "m/a/xtest" _ "m/b" x1 "m/b/xtest" )`,
		`"m.a.test": func() program { return program{ main: p0.TestMain, tests: []testing.InternalTest{ {"TestOne", p0.TestOne}, {"Test", p0.Test}, }, ` +
			`fuzz: []testing.InternalFuzzTarget{ {"FuzzTwo", p0.FuzzTwo}, }, ` +
			`examples: []testing.InternalExample{ {"Example", x0.Example, "7\n", false}, {"ExampleU", x0.ExampleU, "1\n2\n", true}, }, } },`,
		`"m.b.test": func() program { return program{ main: nil, tests: []testing.InternalTest{ {"TestX", x1.TestX}, }, fuzz: []testing.InternalFuzzTarget{}, examples: []testing.InternalExample{}, } }, }`,
	} {
		if !strings.Contains(strings.Join(got, " "), want) {
			t.Errorf("no\n%s\nin\n%s", want, source)
		}
	}
	want := map[string]string{
		"/m/a/a_test.go.go": "/m/a/a_test.go", "/m/a/b_linux_test.go.go": "/m/a/b_linux_test.go", "/m/a/xtest/example_test.go.go": "/m/a/example_test.go",
		"/m/b/export_test.go.go": "/m/b/export_test.go", "/m/b/xtest/b_test.go.go": "/m/b/b_test.go",
	}
	for in, from := range want {
		if overlay[in] != from {
			t.Errorf("%s is %q, not %s", in, overlay[in], from)
		}
	}
	if len(overlay) != len(want) {
		t.Errorf("the overlay is %v", overlay)
	}
	if got := renamed("    a_test.go.go:7: wrong"); got != "    a_test.go:7: wrong" {
		t.Errorf("a failure is at %q", got)
	}
	delete(files, "/m/b/b_test.go")
	if _, _, err := jointSource(pkgs, read); err == nil {
		t.Error("a file that is not there is fine")
	}
}

// TestJointPackages: what has no tests, is a program, or would be in a circle of imports
// is left out, and is tested by itself.
func TestJointPackages(t *testing.T) {
	tests := []string{"x_test.go"}
	pkgs := []goPackage{
		{ImportPath: "m/a", Name: "a", TestGoFiles: tests, TestImports: []string{"m/helpsb", "fmt"}},
		{ImportPath: "m/b", Name: "b", TestGoFiles: tests, TestImports: []string{"m/helpsa", "fmt"}},
		{ImportPath: "m/c", Name: "c", XTestGoFiles: tests, Imports: []string{"m/a", "m/b"}},
		{ImportPath: "m/helpsa", Name: "helpsa", Imports: []string{"m/a"}},
		{ImportPath: "m/helpsb", Name: "helpsb", Imports: []string{"m/b"}},
		{ImportPath: "m/main", Name: "main", TestGoFiles: tests},
	}
	var got []string
	for _, p := range newJoint("/", "x", nil, pkgs, []string{"m/a", "m/b", "m/c", "m/a", "m/helpsa", "m/main", "m/nowhere"}).pkgs {
		got = append(got, p.ImportPath)
	}
	if want := []string{"m/a", "m/c"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestJointArgs: what go test is told reaches the programs and what is built without them.
func TestJointArgs(t *testing.T) {
	all, flags, patterns := jointArgs([]string{"test", "-json", "-timeout=60m", "-race", "-skip=^TestA$", "./a", "m/b"})
	if !slices.Equal(all, []string{"test", "-json", "-timeout=60m", "-race", "-skip=^TestA$"}) ||
		!slices.Equal(flags, []string{"-test.timeout=60m", "-test.skip=^TestA$"}) || !slices.Equal(patterns, []string{"./a", "m/b"}) {
		t.Errorf("%q, %q, %q", all, flags, patterns)
	}
}

// TestJoint builds and runs the program of two packages: each has its own tests and its own
// directory, what fails is told with the name of its file; a package without one is tested
// all the same.
func TestJoint(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":      "module m\n\ngo 1.26\n",
		"a/a.go":      "package a\nfunc Value() int { return value }\nvar value = 1\n",
		"a/a_test.go": "package a\nimport (\"os\"; \"path/filepath\"; \"testing\")\nfunc init() { value = 2 }\nfunc TestBad(t *testing.T) {\n\tdir, _ := os.Getwd()\n\tt.Error(\"in\", filepath.Base(dir))\n}\nfunc TestLeftOut(t *testing.T) { t.Error(\"ran\") }\n",
		"b/b_test.go": "package b\nimport (\"os\"; \"testing\")\nvar begun bool\nfunc TestMain(m *testing.M) { begun = true; os.Exit(m.Run()) }\nfunc TestGood(t *testing.T) { if !begun { t.Error(\"without TestMain\") } }\n",
		"c/c.go":      "package main\nfunc main() {}\n",
		"c/c_test.go": "package main\nimport \"testing\"\nfunc TestProgram(t *testing.T) {}\n",
	} {
		file := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOWORK", "off")
	pkgs := []goPackage{
		{ImportPath: "m/a", Name: "a", Dir: filepath.Join(root, "a"), TestGoFiles: []string{"a_test.go"}},
		{ImportPath: "m/b", Name: "b", Dir: filepath.Join(root, "b"), TestGoFiles: []string{"b_test.go"}},
		{ImportPath: "m/c", Name: "main", Dir: filepath.Join(root, "c"), TestGoFiles: []string{"c_test.go"}},
	}
	built := []string{"-vet=off", "-ldflags=-s -w"}
	patterns := []string{"m/a", "./b", "m/c"}
	var out bytes.Buffer
	r := &results{out: &out}
	r.part(t.Context(), lane{}, part{
		name: "all", dir: root, joint: newJoint(root, "all", built, pkgs, patterns),
		args: slices.Concat([]string{"test", "-json", "-count=1", "-skip=LeftOut"}, built, patterns),
	})
	var got []string
	for _, c := range r.cases {
		got = append(got, c.pkg+" "+c.name+" "+c.ended)
	}
	slices.Sort(got)
	if want := []string{"m/a TestBad fail", "m/b TestGood pass", "m/c TestProgram pass"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q; %v\n%s", got, want, r.failed, out.String())
	}
	if !strings.Contains(out.String(), "    a_test.go:6: in a\n") || !strings.Contains(out.String(), "ok  \tm/b\t") {
		t.Errorf("printed\n%s", out.String())
	}
}
