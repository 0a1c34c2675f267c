package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// most bounds a picture: people load the README over slow lines. A page that still
// waits for the cluster has far less than least.
const (
	most  = 60_000
	least = 15_000
)

// A page is given some time to show what it has, and more each time that it was too little.
const (
	budget = 3 * time.Second
	tries  = 4
)

var errEarly = errors.New("the page was not there yet, try again on a machine that does less")

// patience bounds the whole, calm is how long the picture settles.
const (
	patience = 5 * time.Minute
	calm     = 8 * time.Second
)

func main() {
	skein := flag.String("skein", "bin/skein", "program, with examples/pi.wasm beside it")
	out := flag.String("out", "docs/pictures", "directory of the pictures")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ctx, cancel := context.WithTimeout(ctx, patience)
	err := run(ctx, *skein, *out)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// pages are the pictures of the page, by their names; that of a job is of the latest one.
var pages = map[string]string{"page": "", "network": "network", "lease": "lease", "job": "jobs/"}

var (
	linkOf   = regexp.MustCompile(`http://127\.0\.0\.1:\d+/#\S+`)
	jobOf    = regexp.MustCompile(`\bj[a-z2-7]{26}\b`)
	socketOf = regexp.MustCompile(`top --socket (\S+)`)
)

func run(ctx context.Context, skein, out string) (err error) {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	demo := exec.Command(skein, "demo", "--ui") //nolint:noctx // ended cleanly below
	demo.Stderr = os.Stderr
	said, err := demo.StdoutPipe()
	if err != nil {
		return err
	}
	if err := demo.Start(); err != nil {
		return err
	}
	defer func() {
		_ = demo.Process.Signal(syscall.SIGINT) // it may have ended
		err = errors.Join(err, demo.Wait())
	}()
	lines := make(chan string)
	go func() { // ends with the demo
		defer close(lines)
		for s := bufio.NewScanner(said); s.Scan(); {
			select {
			case lines <- s.Text():
			case <-ctx.Done():
			}
		}
	}()
	socket := ""
	for moved := false; !moved; {
		select {
		case line, more := <-lines:
			if !more {
				return errors.New("the demo ended")
			}
			fmt.Fprintln(os.Stdout, line)
			if m := socketOf.FindStringSubmatch(line); m != nil {
				socket = m[1]
			}
			moved = strings.Contains(line, " s later")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if socket == "" {
		return errors.New("the demo named no socket")
	}
	go func() { // what it says now is not needed
		for range lines { //nolint:revive // emptied
		}
	}()
	if err := terminal(ctx, skein, socket, filepath.Join(out, "top.svg")); err != nil {
		return fmt.Errorf("skein top: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		at := pages[name]
		if strings.HasSuffix(at, "/") {
			job, err := exec.CommandContext(ctx, skein, "--socket", socket, "job", "ls", "--quiet", "-o", "tsv").Output()
			if err != nil {
				return fmt.Errorf("jobs: %w", err)
			}
			at += jobOf.FindString(string(job))
		}
		err := errEarly
		for try := 1; try <= tries && errors.Is(err, errEarly); try++ {
			early := time.Duration(try) * budget
			err = served(ctx, skein, socket, func(link string) error {
				return page(ctx, link+"/"+at, filepath.Join(out, name+".png"), early)
			})
		}
		if err != nil {
			return fmt.Errorf("page %s: %w", name, err)
		}
	}
	return nil
}

// served calls f with the link to the page of the daemon at socket.
func served(ctx context.Context, skein, socket string, f func(link string) error) (err error) {
	ui := exec.CommandContext(ctx, skein, "--socket", socket, "ui", "--read-only")
	ui.Cancel = func() error { return ui.Process.Signal(os.Interrupt) }
	said, err := ui.StdoutPipe()
	if err != nil {
		return err
	}
	if err := ui.Start(); err != nil {
		return err
	}
	defer func() {
		_ = ui.Process.Signal(os.Interrupt) // it may have ended
		err = errors.Join(err, ui.Wait())
	}()
	for s := bufio.NewScanner(said); s.Scan(); {
		if link := linkOf.FindString(s.Text()); link != "" {
			return f(link)
		}
	}
	return errors.New("`skein ui` printed no link")
}

// page has Chromium open the link and draw what it shows after a while.
func page(ctx context.Context, link, file string, after time.Duration) error {
	dir, err := os.MkdirTemp("", "pictures-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a leftover in the temporary directory
	shot := filepath.Join(dir, "page.png")
	cmd := exec.CommandContext(ctx, "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir="+dir,
		"--window-size=1280,800", fmt.Sprintf("--virtual-time-budget=%d", after.Milliseconds()), "--screenshot="+shot, link)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("chromium: %w: %s", err, text)
	}
	text, err := os.ReadFile(shot)
	if err != nil {
		return err
	}
	small, err := smaller(text)
	if err != nil {
		return err
	}
	if len(small) < least {
		return fmt.Errorf("a picture of %d bytes: %w", len(small), errEarly)
	}
	return write(file, small)
}

// terminal runs `skein top` in tmux and draws its screen.
func terminal(ctx context.Context, skein, socket, file string) error {
	dir, err := os.MkdirTemp("", "pictures-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a leftover in the temporary directory
	skein, err = filepath.Abs(skein)
	if err != nil {
		return err
	}
	tmux := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, "tmux", append([]string{"-S", dir + "/tmux", "-f", "/dev/null", "-u"}, args...)...)
		cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "SHELL=/bin/sh")
		return cmd.Output()
	}
	if _, err := tmux("new-session", "-d", "-x", fmt.Sprint(columns), "-y", fmt.Sprint(rows), skein+" top --socket "+socket); err != nil {
		return err
	}
	defer tmux("kill-server") //nolint:errcheck // it may have ended
	select {
	case <-time.After(calm):
	case <-ctx.Done():
		return ctx.Err()
	}
	screen, err := tmux("capture-pane", "-p", "-e")
	if err != nil {
		return err
	}
	if !bytes.Contains(screen, []byte("live")) {
		return fmt.Errorf("no picture: %q", screen)
	}
	return write(file, drawScreen(string(screen)))
}

func write(file string, text []byte) error {
	if len(text) > most {
		return fmt.Errorf("%s has %d bytes, at most %d are wanted", file, len(text), most)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil { //nolint:gosec // for all
		return err
	}
	_, err := fmt.Fprintf(os.Stdout, "%s: %d bytes\n", file, len(text))
	return err
}
