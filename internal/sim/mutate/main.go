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
		word, unit := "MISSED", ""
		if v.bad > 0 || v.unit {
			caught++
			word = "caught"
		}
		if v.unit {
			unit = ", and by the unit tests"
		}
		fmt.Fprintf(out, "%-50s %s by %4d of %d seeds, %5.1f %%%s\n", m.name, word, v.bad, v.ran, 100*float64(v.bad)/float64(v.ran), unit)
	}
	fmt.Fprintf(out, "caught=%d/%d\n", caught, total)
	if caught < total {
		return errors.New("a mutant survived")
	}
	return nil
}

// verdict is what noticed a mutant: how many seeds, and the unit tests or not.
type verdict struct {
	bad, ran int
	unit     bool
}

// try runs the simulation and the core's own tests with one mutant in place.
func try(root, dir string, m mutant, seeds int, first uint64) (verdict, error) {
	var v verdict
	list, err := overlay(root, dir, m)
	if err != nil {
		return v, err
	}
	out, err := goTest(root, list, "./internal/sim", "-run", "^TestSim$", "-all", "-seeds", strconv.Itoa(seeds), "-seed", strconv.FormatUint(first, 10))
	sum := regexp.MustCompile(`(?m)^seeds=(\d+) hours=\d+ violations=(\d+)$`).FindSubmatch(out)
	if sum == nil {
		return v, fmt.Errorf("no summary (%w):\n%s", err, tail(out))
	}
	if v.ran, err = strconv.Atoi(string(sum[1])); err != nil {
		return v, err
	}
	if v.bad, err = strconv.Atoi(string(sum[2])); err != nil {
		return v, err
	}
	_, err = goTest(root, list, "./lease")
	v.unit = err != nil
	return v, nil
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
	return cmd.CombinedOutput()
}

func tail(b []byte) []byte { return b[max(0, len(b)-2000):] }
