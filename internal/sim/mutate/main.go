package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

func main() {
	seeds := flag.Int("seeds", 2000, "seeds per mutant")
	first := flag.Uint64("seed", 1, "first seed")
	only := flag.String("run", "", "run only mutants whose name contains this")
	flag.Parse()
	if err := run(os.Stdout, *seeds, *first, *only); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, seeds int, first uint64, only string) error {
	root, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the repository: %w", err)
	}
	dir, err := os.MkdirTemp("", "skein-mutate-")
	if err != nil {
		return fmt.Errorf("make a work directory: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // best effort
	caught, total := 0, 0
	for _, m := range mutants() {
		if !strings.Contains(m.name, only) {
			continue
		}
		v, err := try(root, dir, m, seeds, first)
		if err != nil {
			return fmt.Errorf("mutant %q: %w", m.name, err)
		}
		total++
		word := "MISSED"
		if v.bad > 0 || len(v.by) > 0 {
			caught++
			word = "caught"
		}
		fmt.Fprintf(out, "%-52s %s by %4d of %d seeds, %5.1f %%%s\n", m.name, word, v.bad, v.ran,
			100*float64(v.bad)/float64(max(1, v.ran)), names(v.by))
	}
	fmt.Fprintf(out, "caught=%d/%d\n", caught, total)
	if caught < total {
		return errors.New("a mutant survived")
	}
	return nil
}

// verdict is what noticed a mutant: how many seeds, and which other tests.
type verdict struct {
	bad, ran int
	by       []string
}

// names lists the first tests that noticed a mutant.
func names(by []string) string {
	const most = 3
	switch {
	case len(by) == 0:
		return ""
	case len(by) > most:
		return fmt.Sprintf("; %s and %d more", strings.Join(by[:most], ", "), len(by)-most)
	}
	return "; " + strings.Join(by, ", ")
}

// try runs the simulation and the package's own tests with one mutant in place.
func try(root, dir string, m mutant, seeds int, first uint64) (verdict, error) {
	var v verdict
	list, err := overlay(root, dir, m)
	if err != nil {
		return v, err
	}
	pkg, which := m.tests()
	if pkg == "./lease" {
		if v.bad, v.ran, err = simulate(root, list, seeds, first); err != nil {
			return v, err
		}
	}
	if pkg == "./eventlog" {
		if v.bad, v.ran, err = simulateLog(root, list); err != nil {
			return v, err
		}
	}
	out, err := goTest(root, list, pkg, "-run", which)
	for _, f := range regexp.MustCompile(`(?m)^--- FAIL: (\w+)`).FindAllSubmatch(out, -1) {
		v.by = append(v.by, string(f[1]))
	}
	if err != nil && len(v.by) == 0 {
		if !strings.Contains(string(out), "panic:") {
			return v, fmt.Errorf("tests of %s (%w):\n%s", pkg, err, tail(out))
		}
		v.by = append(v.by, "a panic")
	}
	return v, nil
}

// enough seeds that notice a mutant tell their share.
const enough = 25

// simulate returns how many seeds notice the mutant, and how many ran.
func simulate(root, list string, seeds int, first uint64) (bad, ran int, err error) {
	out, err := goTest(root, list, "./internal/sim", "-run", "^TestSim$", "-stop", strconv.Itoa(enough), "-seeds", strconv.Itoa(seeds), "-seed", strconv.FormatUint(first, 10))
	sum := regexp.MustCompile(`(?m)^seeds=(\d+) hours=\d+ violations=(\d+)$`).FindSubmatch(out)
	if sum == nil {
		return 0, 0, fmt.Errorf("no summary (%w):\n%s", err, tail(out))
	}
	if ran, err = strconv.Atoi(string(sum[1])); err != nil {
		return 0, 0, err
	}
	bad, err = strconv.Atoi(string(sum[2]))
	return bad, ran, err
}

// logSeeds simulated clusters of logs tell whether they notice a mutant.
const logSeeds = 12

// simulateLog returns how many simulated clusters of logs notice the mutant.
func simulateLog(root, list string) (bad, ran int, err error) {
	out, err := goTest(root, list, "./eventlog", "-run", "^TestClusterSimulation$")
	bad = len(regexp.MustCompile(`(?m)^ +--- FAIL: TestClusterSimulation/seed/`).FindAll(out, -1))
	switch {
	case err != nil && bad == 0 && strings.Contains(string(out), "panic:"):
		return 1, logSeeds, nil
	case err != nil && bad == 0:
		return 0, 0, fmt.Errorf("simulated logs (%w):\n%s", err, tail(out))
	}
	return bad, logSeeds, nil
}

// overlay writes the mutated file and the list that puts it in place.
func overlay(root, dir string, m mutant) (string, error) {
	file := filepath.Join(root, m.file)
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return "", fmt.Errorf("%s holds the old text %d times, want once", m.file, n)
	}
	mutated := filepath.Join(dir, "mutated.go")
	if err := os.WriteFile(mutated, []byte(strings.Replace(string(text), m.old, m.new, 1)), 0o600); err != nil {
		return "", err
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: mutated}})
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	return list, os.WriteFile(list, replace, 0o600)
}

func goTest(root, list, pkg string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", append([]string{"test", "-count=1", "-vet=off", "-overlay", list, "-timeout", "30m", "-v", pkg}, args...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "SKEIN_SEEDS="+strconv.Itoa(logSeeds))
	return cmd.CombinedOutput()
}

func tail(b []byte) []byte { return b[max(0, len(b)-2000):] }
