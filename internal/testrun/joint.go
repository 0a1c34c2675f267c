package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/template"
	"time"
	"unicode"
	"unicode/utf8"
)

// joint is one test program of many packages. To link a program of each package took
// more of a processor than to run most of them. The tests of a package still run in a
// process of their own, in its directory: which package it is of, the program knows by
// its name, so that each has a link to it.
//
// To the compiler the tests of a package are part of it, under names that do not end as
// those of tests do, and one more package imports them all; both are an overlay of
// `go build`, nothing of it is in the tree.
type joint struct {
	root string
	dir  string   // of the program and its links
	args []string // of `go test` that say how it is built
	pkgs []goPackage

	once sync.Once
	said string
	err  error
}

// newJoint has those of pkgs in it that go calls by patterns and that can be part of a
// joint program: they have tests, others can import them, and no test imports what imports
// another that imports it.
func newJoint(root, name string, args []string, pkgs []goPackage, patterns []string) *joint {
	all := &joint{root: root, pkgs: pkgs}
	j := &joint{root: root, dir: filepath.Join(root, "bin", "joint", name), args: args}
	imports := map[string][]string{}
	for _, p := range pkgs {
		imports[p.ImportPath] = p.Imports
	}
	for _, pattern := range patterns {
		p, ok := all.has(pattern)
		if _, twice := j.has(p.ImportPath); !ok || twice || p.Name == "main" || len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
			continue
		}
		imports[p.ImportPath] = slices.Concat(p.Imports, p.TestImports)
		if reaches(imports, p.ImportPath, p.ImportPath, map[string]bool{}) {
			imports[p.ImportPath] = p.Imports
			continue
		}
		j.pkgs = append(j.pkgs, p)
	}
	return j
}

// reaches reports whether from imports to, by others or itself.
func reaches(imports map[string][]string, from, to string, seen map[string]bool) bool {
	return slices.ContainsFunc(imports[from], func(next string) bool {
		if next == to {
			return true
		}
		known := seen[next]
		seen[next] = true
		return !known && reaches(imports, next, to, seen)
	})
}

// jointDir is the package of the program; it is in the overlay only.
const jointDir = "internal/testrun/joint"

// together is how many packages of a joint program run at once: some wait.
const together = 3

// nameInJoint is how a file of tests is called in the overlay; renamed takes it back.
func nameInJoint(file string) string { return file + ".go" }

func renamed(text string) string { return strings.ReplaceAll(text, "_test.go.go:", "_test.go:") }

// has returns the package that go calls by a pattern, if the joint program has it.
func (j *joint) has(pattern string) (goPackage, bool) {
	i := slices.IndexFunc(j.pkgs, func(p goPackage) bool {
		return p.ImportPath == pattern || strings.HasPrefix(pattern, "./") && p.Dir == filepath.Join(j.root, pattern)
	})
	if i < 0 {
		return goPackage{}, false
	}
	return j.pkgs[i], true
}

// program is the program of one package's tests.
func (j *joint) program(p goPackage) string {
	return filepath.Join(j.dir, strings.ReplaceAll(p.ImportPath, "/", ".")+".test")
}

// jointly runs a part whose packages have a joint program, several of them at once; of
// what has none in it, `go test` is told. It returns what they used of a processor.
func (r *results) jointly(ctx context.Context, l lane, p part) time.Duration {
	var used atomic.Int64
	run := func(argv ...string) *exec.Cmd { return p.command(ctx, l, argv...) }
	if said, err := p.joint.build(run, &used); err != nil {
		s := r.stream(p.name)
		for line := range strings.Lines(said) {
			s.line(strings.TrimSuffix(line, "\n"))
		}
		s.end(err)
		return time.Duration(used.Load())
	}
	converter, err := run("go", "tool", "-n", "test2json").Output()
	if err != nil {
		r.stream(p.name).end(fmt.Errorf("go tool test2json: %w", err))
		return time.Duration(used.Load())
	}
	args, flags, patterns := jointArgs(p.args)
	var todo []*exec.Cmd
	for _, pattern := range patterns {
		if in, ok := p.joint.has(pattern); ok {
			program := []string{strings.TrimSpace(string(converter)), "-t", "-p", in.ImportPath, p.joint.program(in), "-test.v=test2json", "-test.paniconexit0"}
			cmd := run(slices.Concat(program, flags)...)
			cmd.Dir = in.Dir
			todo = append(todo, cmd)
		} else {
			args = append(args, pattern)
		}
	}
	if len(todo) < len(patterns) {
		todo = slices.Insert(todo, 0, run(append([]string{"go"}, args...)...))
	}
	next := make(chan *exec.Cmd, len(todo))
	for _, cmd := range todo {
		next <- cmd
	}
	close(next)
	var wg sync.WaitGroup
	for range together {
		wg.Go(func() {
			for cmd := range next {
				used.Add(int64(r.tests(p, cmd)))
			}
		})
	}
	wg.Wait()
	return time.Duration(used.Load())
}

// jointArgs takes apart what `go test` is told: everything but the packages, what of it the
// test program is told, and the packages.
func jointArgs(args []string) (all, flags, patterns []string) {
	for i, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		switch {
		case i > 0 && !strings.HasPrefix(arg, "-"):
			patterns = append(patterns, arg)
			continue
		case slices.Contains([]string{"-run", "-skip", "-timeout", "-parallel", "-short"}, name):
			flags = append(flags, "-test."+arg[1:])
		}
		all = append(all, arg)
	}
	return all, flags, patterns
}

// build makes the programs, once; who comes later waits for it. It returns what go printed.
func (j *joint) build(run func(argv ...string) *exec.Cmd, used *atomic.Int64) (string, error) {
	j.once.Do(func() {
		j.err = j.make(func(argv ...string) error {
			cmd := run(argv...)
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState != nil {
				used.Add(int64(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()))
			}
			if j.said = string(out); err != nil {
				return fmt.Errorf("the tests of %d packages are not built: %w", len(j.pkgs), err)
			}
			return nil
		})
	})
	return j.said, j.err
}

func (j *joint) make(run func(argv ...string) error) error {
	if err := errors.Join(os.RemoveAll(j.dir), os.MkdirAll(j.dir, 0o755)); err != nil {
		return err
	}
	text, overlay, err := jointSource(j.pkgs, os.ReadFile)
	if err != nil {
		return err
	}
	main, list, all := filepath.Join(j.dir, "joint.txt"), filepath.Join(j.dir, "overlay.json"), filepath.Join(j.dir, "all")
	overlay[filepath.Join(j.root, jointDir, "joint_test.go")] = main
	replace, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return err
	}
	if err := errors.Join(os.WriteFile(main, text, 0o600), os.WriteFile(list, replace, 0o600)); err != nil {
		return err
	}
	if err := run(slices.Concat([]string{"go", "test", "-c", "-o", all, "-overlay", list}, j.args, []string{"./" + jointDir})...); err != nil {
		return err
	}
	for _, p := range j.pkgs {
		if err := os.Link(all, j.program(p)); err != nil {
			return err
		}
	}
	return nil
}

// jointPackage is what the text of a joint program says of a package.
type jointPackage struct {
	Name         string // of its program
	Paths        []string
	Main         string // its TestMain, with the package's name
	Tests, Fuzzs []string
	Examples     []jointExample
}

type jointExample struct {
	Name, Output string
	Unordered    bool
}

// jointSource returns the text of a joint program, and which file is where for it. read
// returns the text of a file.
func jointSource(pkgs []goPackage, read func(string) ([]byte, error)) ([]byte, map[string]string, error) {
	overlay := map[string]string{}
	var all []jointPackage
	for i, p := range pkgs {
		j := jointPackage{Name: filepath.Base((&joint{}).program(p))}
		for _, part := range []struct {
			files     []string
			dir, path string
			name      string
		}{
			{p.TestGoFiles, p.Dir, p.ImportPath, fmt.Sprintf("p%d", i)},
			{p.XTestGoFiles, filepath.Join(p.Dir, "xtest"), p.ImportPath + "/xtest", fmt.Sprintf("x%d", i)},
		} {
			found := false
			for _, name := range part.files {
				file := filepath.Join(p.Dir, name)
				overlay[filepath.Join(part.dir, nameInJoint(name))] = file
				text, err := read(file)
				if err != nil {
					return nil, nil, err
				}
				found = j.add(part.name, file, text) || found
			}
			if found {
				j.Paths = append(j.Paths, part.name+` "`+part.path+`"`)
			} else if len(part.files) > 0 {
				j.Paths = append(j.Paths, `_ "`+part.path+`"`)
			}
		}
		all = append(all, j)
	}
	var out bytes.Buffer
	err := jointText.Execute(&out, all)
	return out.Bytes(), overlay, err
}

// add takes the tests of one file, as go test finds them, and reports whether there are any.
func (j *jointPackage) add(pkg, name string, text []byte) bool {
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return true // the compiler says what is wrong with it
	}
	found := false
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil {
			continue
		}
		to := &j.Tests
		switch {
		case f.Name.Name == "TestMain":
			j.Main, found = pkg+".TestMain", true
			continue
		case testName(f.Name.Name, "Test"):
		case testName(f.Name.Name, "Fuzz"):
			to = &j.Fuzzs
		default:
			continue
		}
		*to = append(*to, pkg+"."+f.Name.Name)
		found = true
	}
	for _, e := range doc.Examples(file) {
		if e.Output != "" || e.EmptyOutput {
			j.Examples = append(j.Examples, jointExample{Name: pkg + ".Example" + e.Name, Output: e.Output, Unordered: e.Unordered})
			found = true
		}
	}
	return found
}

// testName reports whether go test takes a function of this name for a test of a kind.
func testName(name, kind string) bool {
	rest, ok := strings.CutPrefix(name, kind)
	first, _ := utf8.DecodeRuneInString(rest)
	return ok && (rest == "" || !unicode.IsLower(first))
}

// jointText is the joint program. The tests of all packages are put where go test put
// those of the package that it was told, which has none.
var jointText = template.Must(template.New("").Funcs(template.FuncMap{
	"bare": func(name string) string { return name[strings.IndexByte(name, '.')+1:] },
}).Parse(`package joint

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"unsafe"
{{range .}}{{range .Paths}}
	{{.}}{{end}}{{end}}
)

type program struct {
	main     func(*testing.M)
	tests    []testing.InternalTest
	fuzz     []testing.InternalFuzzTarget
	examples []testing.InternalExample
}

var programs = map[string]func() program{ {{range .}}
	{{printf "%q" .Name}}: func() program {
		return program{
			main: {{or .Main "nil"}},
			tests: []testing.InternalTest{ {{range .Tests}}
				{ {{bare . | printf "%q"}}, {{.}} },{{end}}
			},
			fuzz: []testing.InternalFuzzTarget{ {{range .Fuzzs}}
				{ {{bare . | printf "%q"}}, {{.}} },{{end}}
			},
			examples: []testing.InternalExample{ {{range .Examples}}
				{ {{bare .Name | printf "%q"}}, {{.Name}}, {{printf "%q" .Output}}, {{.Unordered}} },{{end}}
			},
		}
	},{{end}}
}

func TestMain(m *testing.M) {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	of, ok := programs[filepath.Base(exe)]
	if !ok {
		panic(fmt.Sprintf("no package has its tests in %s", exe))
	}
	p := of()
	set(m, "tests", p.tests)
	set(m, "fuzzTargets", p.fuzz)
	set(m, "examples", p.examples)
	if p.main == nil {
		p.main = func(m *testing.M) { m.Run() }
	}
	p.main(m)
}

// set changes an unexported field of what runs the tests.
func set[T any](m *testing.M, field string, to T) {
	f := reflect.ValueOf(m).Elem().FieldByName(field)
	if !f.IsValid() || f.Type() != reflect.TypeFor[T]() {
		panic("testing.M has changed: " + field)
	}
	*(*T)(unsafe.Pointer(f.UnsafeAddr())) = to
}
`))
