package main

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// feed runs lines of test2json through a part.
func feed(r *results, part string, err error, lines ...string) {
	s := r.stream(part)
	for _, l := range lines {
		s.line(l)
	}
	s.end(err)
}

const (
	passing = `{"Action":"run","Package":"m/a","Test":"TestGood"}
{"Action":"output","Package":"m/a","Test":"TestGood","Output":"    a_test.go:3: unimportant\n"}
{"Action":"output","Package":"m/a","Test":"TestGood","Output":"    a_test.go:3: waited for a cluster slot: 1.50s\n"}
{"Action":"pass","Package":"m/a","Test":"TestGood","Elapsed":4}
{"Action":"run","Package":"m/a","Test":"TestSkipped"}
{"Action":"skip","Package":"m/a","Test":"TestSkipped","Elapsed":0}
{"Action":"output","Package":"m/a","Output":"ok  \tm/a\t4.000s\n"}
{"Action":"pass","Package":"m/a","Elapsed":4}`
	failing = `{"Action":"run","Package":"m/b","Test":"TestBad"}
{"Action":"output","Package":"m/b","Test":"TestBad","Output":"=== RUN   TestBad\n"}
{"Action":"output","Package":"m/b","Test":"TestBad","Output":"printed\n"}
{"Action":"run","Package":"m/b","Test":"TestBad/sub"}
{"Action":"output","Package":"m/b","Test":"TestBad/sub","Output":"    b_test.go:4: wrong\n"}
{"Action":"fail","Package":"m/b","Test":"TestBad/sub","Elapsed":2}
{"Action":"run","Package":"m/b","Test":"TestBad/fine"}
{"Action":"output","Package":"m/b","Test":"TestBad/fine","Output":"    b_test.go:5: unimportant\n"}
{"Action":"pass","Package":"m/b","Test":"TestBad/fine","Elapsed":0.5}
{"Action":"fail","Package":"m/b","Test":"TestBad","Elapsed":2.5}
{"Action":"output","Package":"m/b","Output":"logs: /x\n"}
{"Action":"output","Package":"m/b","Output":"FAIL\tm/b\t2.500s\n"}
{"Action":"fail","Package":"m/b","Elapsed":2.5}`
	unbuilt = `{"ImportPath":"m/c [m/c.test]","Action":"build-output","Output":"c_test.go:3:27: undefined: x\n"}
{"ImportPath":"m/c [m/c.test]","Action":"build-fail"}
{"Action":"start","Package":"m/c"}
{"Action":"output","Package":"m/c","Output":"FAIL\tm/c [build failed]\n"}
{"Action":"fail","Package":"m/c","Elapsed":0,"FailedBuild":"m/c [m/c.test]"}`
	hanging = `{"Action":"run","Package":"m/d","Test":"TestHangs"}
{"Action":"output","Package":"m/d","Test":"TestHangs","Output":"panic: test timed out\n"}`
)

// TestResults tells what failed and why, keeps the rest quiet, and orders the
// cases by what they took without their wait for a slot.
func TestResults(t *testing.T) {
	var out bytes.Buffer
	r := &results{out: &out}
	exit := errors.New("exit status 1")
	feed(r, "one", nil, strings.Split(passing, "\n")...)
	if out.String() != "ok  \tm/a\t4.000s\n" {
		t.Errorf("a package that passed is %q", out.String())
	}
	out.Reset()
	feed(r, "two", exit, strings.Split(failing+"\n"+unbuilt, "\n")...)
	want := "--- part \"two\", package m/b\nprinted\n    b_test.go:4: wrong\nlogs: /x\nFAIL\tm/b\t2.500s\n" +
		"--- part \"two\", package m/c\nc_test.go:3:27: undefined: x\nFAIL\tm/c [build failed]\n"
	if out.String() != want {
		t.Errorf("what failed is\n%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	feed(r, "three", exit, append(strings.Split(hanging, "\n"), "go: no such tool")...)
	want = "--- part \"three\"\ngo: no such tool\n--- part \"three\", package m/d\npanic: test timed out\nFAIL\tm/d [three]\n"
	if out.String() != want {
		t.Errorf("what was cut short is\n%s\nwant\n%s", out.String(), want)
	}
	feed(r, "four", exit)
	out.Reset()
	if r.summary(2) {
		t.Error("all is well")
	}
	want = `
slowest cases:
     2.5 s  m/a  TestGood  (one)
     2.0 s  m/b  TestBad/sub  (two)

ok  	m/a	4.000s
FAIL	m/b	2.500s
FAIL	m/c [build failed]
FAIL	m/d [three]
failed: two: m/b TestBad/sub
failed: two: m/c
failed: three: m/d TestHangs
failed: four: exit status 1
2 passed, 2 failed, 1 skipped
`
	if out.String() != want {
		t.Errorf("summary is\n%s\nwant\n%s", out.String(), want)
	}
}

func TestGoodAndEmptyRun(t *testing.T) {
	var out bytes.Buffer
	r := &results{out: &out}
	feed(r, "one", nil, strings.Split(passing, "\n")...)
	if !r.summary(10) || !strings.HasSuffix(out.String(), "\n1 passed, 0 failed, 1 skipped\n") {
		t.Errorf("not good:\n%s", out.String())
	}
	if (&results{out: &out}).summary(10) {
		t.Error("a run without any test is good")
	}
}

// TestItsOwnFault: a test that failed though all its subtests passed is named, counted
// and run again.
func TestItsOwnFault(t *testing.T) {
	var out bytes.Buffer
	r := &results{out: &out}
	feed(r, "one", errors.New("exit status 1"), strings.Split(`{"Action":"run","Package":"m/e","Test":"TestPage"}
{"Action":"run","Package":"m/e","Test":"TestPage/sub"}
{"Action":"pass","Package":"m/e","Test":"TestPage/sub","Elapsed":1}
{"Action":"fail","Package":"m/e","Test":"TestPage","Elapsed":2}
{"Action":"fail","Package":"m/e","Elapsed":2}`, "\n")...)
	if got, in := r.suspects("one", 1); !slices.Equal(got, []string{"TestPage"}) || !slices.Equal(in, []string{"m/e"}) {
		t.Errorf("suspects are %v in %v", got, in)
	}
	if r.summary(0) || !strings.HasSuffix(out.String(), "failed: one: m/e TestPage\n1 passed, 1 failed, 0 skipped\n") {
		t.Errorf("summary is\n%s", out.String())
	}
}

// TestAgain: a test that failed beside others and passes alone is named, and
// nothing else is forgiven.
func TestAgain(t *testing.T) {
	var out bytes.Buffer
	r := &results{out: &out}
	exit := errors.New("exit status 1")
	feed(r, "two", exit, strings.Split(failing, "\n")...)
	feed(r, "race", exit, strings.Split(strings.ReplaceAll(failing, "printed", "WARNING: DATA RACE"), "\n")...)
	feed(r, "unbuilt", exit, strings.Split(unbuilt, "\n")...)
	feed(r, "hangs", exit, strings.Split(hanging, "\n")...)
	if got, _ := r.suspects("two", 1); !slices.Equal(got, []string{"TestBad"}) {
		t.Errorf("suspects are %v", got)
	}
	if got, _ := r.suspects("two", 0); got != nil {
		t.Errorf("more than are allowed: %v", got)
	}
	for _, part := range []string{"race", "unbuilt", "hangs", "none"} {
		if got, _ := r.suspects(part, 9); got != nil {
			t.Errorf("%s: suspects are %v", part, got)
		}
	}
	r = &results{out: &out}
	feed(r, "two", exit, strings.Split(failing, "\n")...)
	feed(r, "two, alone", nil, strings.Split(passing, "\n")...)
	if !r.good("two, alone") || r.good("two") {
		t.Fatal("who failed?")
	}
	r.forgive("two")
	out.Reset()
	if !r.summary(0) {
		t.Error("not good")
	}
	if want := "failed beside others, passed alone: two: m/b TestBad/sub\n2 passed, 0 failed, 1 skipped\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("summary is\n%s", out.String())
	}
}

// TestLanes has the packages that need nothing special in the part that is left, and
// each package in one part, or the tests of it that one part skips in another.
func TestLanes(t *testing.T) {
	list := func(patterns ...string) ([]string, error) {
		if slices.Equal(patterns, []string{"./..."}) {
			return []string{"m/coord", "m/internal/demo", "m/lease", "m/mesh", "m/mesh/topo"}, nil
		} else if slices.Contains(patterns, "./lease") {
			return []string{"m/lease"}, nil
		}
		return []string{"m/coord", "m/internal/demo"}, nil
	}
	all, err := lanes("/", list, []string{"m/mesh/topo", "m/lease", "m/internal/demo"})
	if err != nil {
		t.Fatal(err)
	}
	args := map[string][]string{}
	for _, l := range all {
		for _, p := range l.parts {
			args[p.name] = p.args
		}
	}
	ends := func(part string, race bool, want ...string) {
		t.Helper()
		got := args[part]
		if len(got) < len(want) || !slices.Equal(got[len(got)-len(want):], want) || slices.Contains(got, "-race") != race {
			t.Errorf("part %s runs %v", part, got)
		}
	}
	pkgs, cases := slowCases()
	ends("race", true, "-skip="+cases, "m/mesh")
	ends("slow with race", false, slices.Concat([]string{"-run=" + cases}, pkgs)...)
	ends("without race", false, "-vet=off", "m/lease", "m/mesh/topo")
	ends("coord, race", true, "-skip="+largeOfCoord, "./coord")
	ends("coord, large", false, "-run="+largeOfCoord, "./coord")
	ends("daemons, race", true, "-run="+racedClusters, "./internal/demo")
	ends("daemons", false, "-skip="+racedClusters+"|"+longClusters, "./internal/demo")
	for name := range strings.SplitSeq(strings.TrimSuffix(strings.TrimPrefix(longClusters, "^Test("), ")$"), "|") {
		if regexp.MustCompile(racedClusters).MatchString("Test" + name) {
			t.Errorf("Test%s would be run twice", name)
		}
	}
	ends("daemons, long", false, "-run="+longClusters, "./internal/demo")
	if makefile, err := os.ReadFile("../../Makefile"); err != nil || !strings.Contains(string(makefile), "\nRACE := "+strings.Join(withRace, " ")+"\n") {
		t.Errorf("the daemons are built otherwise than the tests: %v", err)
	}
	if one, err := named(all, func(name string) bool { return name == "race" }); err != nil || len(one) != 1 || len(one[0].parts) != 1 {
		t.Errorf("%+v, %v", one, err)
	}
	if _, err := named(all, func(string) bool { return false }); err == nil {
		t.Error("no part at all is fine")
	}
}

// TestMatching: patterns choose as go list has them, in their order; one that chooses nothing
// would leave tests out.
func TestMatching(t *testing.T) {
	pkgs := []goPackage{{ImportPath: "m/a", Dir: "/m/a"}, {ImportPath: "m/a/b", Dir: "/m/a/b"}, {ImportPath: "m/ab", Dir: "/m/ab"}}
	for _, c := range []struct{ patterns, want []string }{
		{[]string{"./..."}, []string{"m/a", "m/a/b", "m/ab"}},
		{[]string{"./ab", "./a/..."}, []string{"m/ab", "m/a", "m/a/b"}},
		{[]string{"./a"}, []string{"m/a"}},
	} {
		if got, err := matching("/m", pkgs, c.patterns); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, %v", c.patterns, got, err)
		}
	}
	if got, err := matching("/m", pkgs, []string{"./a", "./c"}); err == nil {
		t.Errorf("a package that is not there: %q", got)
	}
}

// TestSlowCases: each case that is left out of the race detector's part is there, and no
// other package has one of its name, which nobody would run.
func TestSlowCases(t *testing.T) {
	_, all := slowCases()
	pattern, err := regexp.Compile(regexp.MustCompile(`/\^\([^)]*\)\$`).ReplaceAllString(all, ""))
	if err != nil {
		t.Fatal(err)
	}
	have := map[string][]string{}
	root := os.DirFS("../..")
	if err := fs.WalkDir(root, ".", func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() && slices.Contains([]string{"bin", "node_modules", ".git"}, e.Name()) {
			return cmp.Or(err, error(fs.SkipDir))
		}
		if !strings.HasSuffix(file, "_test.go") {
			return nil
		}
		text, err := fs.ReadFile(root, file)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
			if name := string(m[1]); pattern.MatchString(name) && !slices.Contains(without, path.Dir(file)) {
				have["./"+path.Dir(file)] = append(have["./"+path.Dir(file)], name)
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{}
	for _, s := range slow {
		want[s.pkg] = 1 + strings.Count(strings.Split(s.cases, "/")[0], "|")
	}
	for pkg, names := range have {
		if len(names) != want[pkg] {
			t.Errorf("%s has %q, want %d of them", pkg, names, want[pkg])
		}
		delete(want, pkg)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

// without are packages that never run with the race detector and have cases of such names.
var without = []string{"scheduler/flow"}
