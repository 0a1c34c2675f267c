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
		bad, ran, err := try(root, dir, m, seeds, first)
		if err != nil {
			return fmt.Errorf("mutant %q: %w", m.name, err)
		}
		total++
		verdict := "MISSED"
		if bad > 0 {
			caught++
			verdict = "caught"
		}
		fmt.Fprintf(out, "%-50s %s by %4d of %d seeds, %5.1f %%\n", m.name, verdict, bad, ran, 100*float64(bad)/float64(ran))
	}
	fmt.Fprintf(out, "caught=%d/%d\n", caught, total)
	if caught < total {
		return errors.New("a mutant survived")
	}
	return nil
}

// try runs the simulation with one mutant in place.
func try(root, dir string, m mutant, seeds int, first uint64) (bad, ran int, err error) {
	file := filepath.Join(root, m.file)
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, 0, err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return 0, 0, fmt.Errorf("%s holds the old text %d times, want once", m.file, n)
	}
	mutated := filepath.Join(dir, "mutated.go")
	if err := os.WriteFile(mutated, []byte(strings.Replace(string(text), m.old, m.new, 1)), 0o600); err != nil {
		return 0, 0, err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {file: mutated}})
	if err != nil {
		return 0, 0, err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return 0, 0, err
	}
	cmd := exec.Command("go", "test", "-count=1", "-vet=off", "-overlay", list, "-run", "^TestSim$", "-timeout", "30m", "-v",
		"./internal/sim", "-all", "-seeds", strconv.Itoa(seeds), "-seed", strconv.FormatUint(first, 10))
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	sum := regexp.MustCompile(`(?m)^seeds=(\d+) hours=\d+ violations=(\d+)$`).FindSubmatch(out)
	if sum == nil {
		return 0, 0, fmt.Errorf("no summary (%w):\n%s", err, tail(out))
	}
	ran, err = strconv.Atoi(string(sum[1]))
	if err != nil {
		return 0, 0, err
	}
	bad, err = strconv.Atoi(string(sum[2]))
	return bad, ran, err
}

func tail(b []byte) []byte { return b[max(0, len(b)-2000):] }
