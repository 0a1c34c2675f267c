package facebench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/skein-project/skein/bench/suite"
)

// noBrowser is the exit code of the program that measures the page when there is no
// Chromium.
const noBrowser = 3

// measure builds the program that measures the page in Chromium.
func measure(ctx context.Context, s *suite.Suite) (string, error) {
	out := filepath.Join(s.Dir, "measure")
	if _, err := os.Stat(out); err == nil {
		return out, nil
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", out, "./measure")
	build.Dir = filepath.Join("..", "web", "browser")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build web/browser/measure: %w: %s", err, text)
	}
	return out, nil
}

// bound is a row of the page: a figure of the program that measures it, and what it is at
// most or at least.
type bound struct {
	key, name, unit string
	target          suite.Target
}

// NoBrowserError says that there is no Chromium, and why.
type NoBrowserError struct{ said string }

func (e *NoBrowserError) Error() string {
	return "no Chromium, which scripts/deps installs: " + e.said
}

// Measured is what the program that measures the page prints.
func Measured(ctx context.Context, s *suite.Suite, args ...string) (map[string][]float64, error) {
	exe, err := measure(ctx, s)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, exe, args...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == noBrowser {
			return nil, &NoBrowserError{said.String()}
		}
		return nil, fmt.Errorf("%w: %s", err, said.String())
	}
	var got map[string][]float64
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		return nil, fmt.Errorf("web/browser/measure printed %q: %w", out.String(), err)
	}
	return got, nil
}

// page adds rows of what the program measures.
func page(ctx context.Context, s *suite.Suite, what string, rows ...bound) error {
	s.Progress("%s in Chromium, %d rounds", what, s.Size.Rounds)
	got, err := Measured(ctx, s, "-rounds", fmt.Sprint(s.Size.Rounds), "-for", (3 * s.Size.Burst).String(),
		"-hosts", fmt.Sprint(s.Size.PageHosts), "-events", fmt.Sprint(s.Size.PageEvents), what)
	if absent, ok := errors.AsType[*NoBrowserError](err); ok {
		for _, r := range rows {
			s.Skip(r.name, absent.Error())
		}
		return nil
	}
	if err != nil {
		return err
	}
	for _, r := range rows {
		if len(got[r.key]) == 0 {
			return fmt.Errorf("web/browser/measure says nothing of %s", r.key)
		}
		s.Add(suite.Series{Name: r.name, Unit: r.unit, Target: r.target, Digest: suite.Median, Ours: got[r.key]})
	}
	return nil
}

// WebPaint is the first look at the page, by a browser that knows nothing of it.
func WebPaint(ctx context.Context, s *suite.Suite) error {
	return page(ctx, s, "paint",
		bound{"first paint", "page: first paint", "ms", suite.Want("ours", "<=", 300)},
		bound{"synced", "page: the first picture of the cluster", "ms", suite.Want("ours", "<=", 500)})
}

// WebNetwork is the picture of a large cluster, which changes.
func WebNetwork(ctx context.Context, s *suite.Suite) error {
	name := fmt.Sprintf("page: network of %d hosts, ", s.Size.PageHosts)
	return page(ctx, s, "network",
		bound{"network frames", name + "frames", "frames/s", suite.Want("ours", ">=", 30)},
		bound{"network script", name + "script for a frame", "ms", suite.Want("ours", "<=", 8)})
}

// WebEvents is the page of the events with very many of them.
func WebEvents(ctx context.Context, s *suite.Suite) error {
	name := fmt.Sprintf("page: %d events, ", s.Size.PageEvents)
	return page(ctx, s, "events",
		bound{"events load", name + "shown", "ms", suite.Want("ours", "<=", 100)},
		bound{"events filter", name + "filtered", "ms", suite.Want("ours", "<=", 100)},
		bound{"events scroll", name + "scrolled", "frames/s", suite.Want("ours", ">=", 30)},
		bound{"events rows", name + "rows in the document", "rows", suite.Want("ours", "<=", 100)},
		bound{"events heap", name + "heap", "MB", suite.Want("ours", "<=", 120)})
}
