package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	good, err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
	}
	if err != nil || !good {
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (bool, error) {
	flags := flag.NewFlagSet("testrun", flag.ContinueOnError)
	match := flags.String("run", "", "only the parts whose names match this expression")
	slowest := flags.Int("slowest", 10, "how many of the slowest cases to list at the end")
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	names, err := regexp.Compile(*match)
	if err != nil {
		return false, fmt.Errorf("-run: %w", err)
	}
	root, err := os.Getwd()
	if err != nil {
		return false, err
	}
	pkgs, err := packages(ctx)
	if err != nil {
		return false, err
	}
	single, err := oneThread(pkgs, os.ReadFile)
	if err != nil {
		return false, err
	}
	all, err := lanes(root, func(patterns ...string) ([]string, error) { return matching(root, pkgs, patterns) }, single)
	if err != nil {
		return false, err
	}
	if all, err = named(all, names.MatchString); err != nil {
		return false, err
	}
	r := &results{out: out}
	var first, wg sync.WaitGroup
	for _, l := range all {
		begins := &wg
		if l.first {
			begins = &first
		}
		begins.Go(func() {
			if !l.first && l.nice < computes {
				first.Wait()
			}
			for _, p := range l.parts {
				r.part(ctx, l, p)
			}
		})
	}
	first.Wait()
	wg.Wait()
	r.again(ctx, all)
	return r.summary(*slowest), nil
}

// again runs the few tests of a part that failed once more, alone: on a machine
// that had too much to do they were late. They pass then, and the summary names
// them; what is wrong with the program or the test fails again.
func (r *results) again(ctx context.Context, all []lane) {
	for _, l := range all {
		for _, p := range l.parts {
			tests, pkgs := r.suspects(p.name, mostAgain)
			if len(tests) == 0 {
				continue
			}
			former := p.name
			p.name += ", alone"
			p.args = slices.DeleteFunc(slices.Clone(p.args), func(arg string) bool { return !strings.HasPrefix(arg, "-") && arg != "test" })
			p.args = slices.Concat(p.args, []string{"-run=^(" + strings.Join(tests, "|") + ")$"}, pkgs)
			if r.part(ctx, l, p); r.good(p.name) {
				r.forgive(former)
			}
		}
	}
}

// matching returns the packages that go would list for patterns below root.
func matching(root string, pkgs []goPackage, patterns []string) (out []string, err error) {
	for _, pattern := range patterns {
		dir, tree := strings.CutSuffix(pattern, "/...")
		dir = filepath.Join(root, dir)
		found := false
		for _, p := range pkgs {
			if p.Dir == dir || tree && strings.HasPrefix(p.Dir, dir+string(filepath.Separator)) {
				found, out = true, append(out, p.ImportPath)
			}
		}
		if !found {
			return nil, fmt.Errorf("no package matches %s", pattern)
		}
	}
	return out, nil
}

func goListed(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	return out, nil
}

// packages returns all packages.
func packages(ctx context.Context) ([]goPackage, error) {
	out, err := goListed(ctx, "-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports", "./...")
	if err != nil {
		return nil, err
	}
	var all []goPackage
	for in := json.NewDecoder(bytes.NewReader(out)); in.More(); {
		var p goPackage
		if err := in.Decode(&p); err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		all = append(all, p)
	}
	return all, nil
}

// command is how a part is started.
func (p part) command(ctx context.Context, l lane) *exec.Cmd {
	argv := append([]string{"go"}, p.args...)
	if l.nice != 0 { // nice itself says so where it may not, and goes on
		argv = append([]string{"nice", "-n", strconv.Itoa(l.nice)}, argv...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	// Without the directory in them, what one clone compiled serves the next. A
	// program with the race detector would wait for a second when it ends.
	cmd.Dir, cmd.Env = p.dir, slices.Concat(os.Environ(), []string{"GOFLAGS=" + strings.TrimSpace(os.Getenv("GOFLAGS")+" -trimpath"), "GORACE=atexit_sleep_ms=100"}, p.env)
	if !slices.Contains(p.args, "-race") {
		// As the program is built: what is compiled for it is not compiled again.
		cmd.Env = append(cmd.Env, "CGO_ENABLED=0")
	}
	// A group of its own, so that an interrupt reaches the tests as well.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// part runs one part to its end.
func (r *results) part(ctx context.Context, l lane, p part) {
	s := r.stream(p.name)
	if ctx.Err() != nil {
		s.end(context.Cause(ctx))
		return
	}
	cmd := p.command(ctx, l)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	began := time.Now()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.end(err)
		return
	}
	err = s.read(out)
	if waited := cmd.Wait(); err == nil {
		err = waited
	}
	for line := range strings.Lines(stderr.String()) {
		s.line(strings.TrimSuffix(line, "\n"))
	}
	s.end(err)
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	r.write(fmt.Sprintf("part %q took %s, %s of a processor\n", p.name, time.Since(began).Round(time.Second), used.Round(time.Second)))
}

// read takes all lines of a part's output.
func (s *stream) read(out io.Reader) error {
	for in := bufio.NewReader(out); ; {
		text, err := in.ReadString('\n')
		if text != "" {
			s.line(strings.TrimSuffix(text, "\n"))
		}
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read output of part %q: %w", s.part, err)
		}
	}
}
