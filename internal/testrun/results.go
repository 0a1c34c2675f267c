package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/skein-project/skein/internal/clusterslot"
)

// event is a line of `go test -json`, as `go doc test2json` describes it.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
	FailedBuild                               string
}

// testCase is one test or subtest.
type testCase struct {
	part, pkg, name string
	seconds         float64
	ended           string // pass, fail or skip; empty: it never ended
	parent          bool   // of subtests
	output          []string
}

// results collects what all parts report, and prints each package when it is
// complete.
type results struct {
	mu       sync.Mutex
	out      io.Writer
	cases    []*testCase
	lines    []string // the last line of each package, as go test prints it
	failed   []failure
	forgiven []failure // what passed alone
}

// failure is a package or a part that failed.
type failure struct {
	part, pkg string
	cases     []string // that failed; none if it was not built or was cut short
	why       string   // of a part
}

func (f failure) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s: %s %s", f.part, cmp.Or(f.pkg, f.why), strings.Join(f.cases, " ")))
}

// stream is the output of one run of `go test -json`.
type stream struct {
	r     *results
	part  string
	pkgs  map[string]*pkgRun
	build map[string][]string // output of the compiler by package
	raw   []string            // what was no event
}

// pkgRun is a package whose tests run.
type pkgRun struct {
	cases  map[string]*testCase
	order  []*testCase
	output []string // of no test
}

func (r *results) stream(part string) *stream {
	return &stream{r: r, part: part, pkgs: map[string]*pkgRun{}, build: map[string][]string{}}
}

// line takes one line of output.
func (s *stream) line(text string) {
	var e event
	if !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &e) != nil {
		s.raw = append(s.raw, text+"\n")
		return
	}
	switch e.Action {
	case "build-output":
		s.build[e.ImportPath] = append(s.build[e.ImportPath], e.Output)
		return
	case "build-fail":
		return
	}
	p := s.pkgs[e.Package]
	if p == nil {
		p = &pkgRun{cases: map[string]*testCase{}}
		s.pkgs[e.Package] = p
	}
	if e.Test == "" {
		s.pkgEvent(p, e)
		return
	}
	c := p.cases[e.Test]
	if c == nil {
		c = &testCase{part: s.part, pkg: e.Package, name: e.Test}
		p.cases[e.Test], p.order = c, append(p.order, c)
		if i := strings.LastIndexByte(e.Test, '/'); i > 0 && p.cases[e.Test[:i]] != nil {
			p.cases[e.Test[:i]].parent = true
		}
	}
	switch e.Action {
	case "output":
		c.output = append(c.output, e.Output)
	case "pass", "fail", "skip":
		c.ended, c.seconds = e.Action, e.Elapsed-slotTime(c.output)
		if c.ended != "fail" {
			c.output = nil
		}
	}
}

// waitedLine is what clusterslot logs.
var waitedLine = regexp.MustCompile(regexp.QuoteMeta(clusterslot.Waited) + `([0-9.]+)s`)

// slotTime is how long a test waited until it might start.
func slotTime(output []string) float64 {
	sum := 0.0
	for _, line := range output {
		if m := waitedLine.FindStringSubmatch(line); m != nil {
			s, err := strconv.ParseFloat(m[1], 64)
			if err == nil {
				sum += s
			}
		}
	}
	return sum
}

func (s *stream) pkgEvent(p *pkgRun, e event) {
	switch e.Action {
	case "output":
		p.output = append(p.output, e.Output)
	case "pass", "skip", "fail":
		delete(s.pkgs, e.Package)
		s.r.complete(s.part, e, p, s.build[e.FailedBuild])
	}
}

// end says that the run is over. A package without an end was cut short.
func (s *stream) end(err error) {
	if len(s.raw) > 0 {
		s.r.write(fmt.Sprintf("--- part %q\n%s", s.part, strings.Join(s.raw, "")))
	}
	for name, p := range s.pkgs {
		s.r.complete(s.part, event{Action: "fail", Package: name}, p, nil)
	}
	if err != nil {
		s.r.fail(s.part, err.Error())
	}
}

func (c *testCase) bad() bool { return c.ended == "fail" || c.ended == "" }

// blame has each test count that failed by itself: all its subtests passed.
func (p *pkgRun) blame() {
	for _, c := range p.order {
		c.parent = c.parent && (!c.bad() || slices.ContainsFunc(p.order, func(sub *testCase) bool {
			return sub.bad() && strings.HasPrefix(sub.name, c.name+"/")
		}))
	}
}

// complete prints the result of a package: its last line, and before that, if
// it failed, what a reader needs.
func (r *results) complete(part string, e event, p *pkgRun, build []string) {
	// go test prints ok or FAIL with the package last.
	last := fmt.Sprintf("FAIL\t%s [%s]\n", e.Package, part)
	if n := len(p.output); n > 0 && strings.Contains(p.output[n-1], e.Package) {
		last = p.output[n-1]
		p.output = p.output[:n-1]
	}
	var text strings.Builder
	var failed []string
	p.blame()
	if e.Action == "fail" {
		fmt.Fprintf(&text, "--- part %q, package %s\n", part, e.Package)
		for _, line := range build {
			text.WriteString(line)
		}
		for _, c := range p.order {
			if !c.bad() {
				continue
			}
			for _, line := range c.output {
				if line := strings.TrimLeft(line, " "); strings.HasPrefix(line, "=== ") {
					continue
				}
				text.WriteString(line)
			}
			if !c.parent {
				failed = append(failed, c.name)
			}
		}
		for _, line := range p.output {
			text.WriteString(line)
		}
	}
	text.WriteString(last)
	r.mu.Lock()
	defer r.mu.Unlock()
	io.WriteString(r.out, text.String()) //nolint:errcheck // nobody is left to be told
	r.cases = append(r.cases, p.order...)
	r.lines = append(r.lines, last)
	if e.Action == "fail" {
		r.failed = append(r.failed, failure{part: part, pkg: e.Package, cases: failed})
	}
}

func (r *results) write(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	io.WriteString(r.out, text) //nolint:errcheck // nobody is left to be told
}

// fail notes that a part failed, unless one of its packages says so already.
func (r *results) fail(part, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.ContainsFunc(r.failed, func(f failure) bool { return f.part == part }) {
		r.failed = append(r.failed, failure{part: part, why: why})
	}
}

// suspects returns the tests of a part that failed and their packages, if these tests
// are at most most and all that went wrong with it. Neither a data race nor a panic comes from a machine
// that has too much to do.
func (r *results) suspects(part string, most int) (tests, pkgs []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.cases {
		if c.part == part && slices.ContainsFunc(c.output, func(line string) bool { return fault.MatchString(line) }) {
			return nil, nil
		}
	}
	for _, f := range r.failed {
		if f.part != part {
			continue
		}
		if len(f.cases) == 0 {
			return nil, nil
		}
		pkgs = append(pkgs, f.pkg)
		for _, c := range f.cases {
			test, _, _ := strings.Cut(c, "/")
			tests = append(tests, test)
		}
	}
	slices.Sort(tests)
	if tests = slices.Compact(tests); len(tests) > most {
		return nil, nil
	}
	return tests, pkgs
}

var fault = regexp.MustCompile(`DATA RACE|panic:|fatal error:`)

// forgive takes back that tests of a part failed, because they passed alone.
func (r *results) forgive(part string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = slices.DeleteFunc(r.failed, func(f failure) bool {
		if f.part == part {
			r.forgiven = append(r.forgiven, f)
		}
		return f.part == part
	})
	for _, c := range r.cases {
		if c.part == part && c.bad() {
			c.ended = "forgiven"
		}
	}
}

// good reports whether nothing of a part failed.
func (r *results) good(part string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !slices.ContainsFunc(r.failed, func(f failure) bool { return f.part == part })
}

// summary writes the slowest cases, the line of each package, what failed and
// the counts. It reports whether all is well.
func (r *results) summary(slowest int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	var leaves []*testCase
	count := map[string]int{}
	for _, c := range r.cases {
		if c.parent {
			continue
		}
		leaves = append(leaves, c)
		if c.ended == "" {
			c.ended = "fail"
		}
		count[c.ended]++
	}
	slices.SortStableFunc(leaves, func(a, b *testCase) int {
		switch {
		case a.seconds > b.seconds:
			return -1
		case a.seconds < b.seconds:
			return 1
		}
		return 0
	})
	fmt.Fprintf(r.out, "\nslowest cases:\n")
	for _, c := range leaves[:min(slowest, len(leaves))] {
		fmt.Fprintf(r.out, "%8.1f s  %s  %s  (%s)\n", c.seconds, c.pkg, c.name, c.part)
	}
	fmt.Fprintln(r.out)
	for _, line := range r.lines {
		if !strings.Contains(line, "[no test files]") {
			io.WriteString(r.out, line) //nolint:errcheck // nobody is left to be told
		}
	}
	for _, f := range r.failed {
		fmt.Fprintf(r.out, "failed: %s\n", f)
	}
	for _, f := range r.forgiven {
		fmt.Fprintf(r.out, "failed beside others, passed alone: %s\n", f)
	}
	good := len(r.failed) == 0 && count["fail"] == 0 && count["pass"] > 0
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", count["pass"], count["fail"], count["skip"])
	return good
}
