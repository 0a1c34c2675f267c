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
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/bench/testbed"
	"github.com/skein-project/skein/bench/watchbench"
)

// TopIdle counts what `skein top` writes to a terminal of 80x24: of three daemons that
// have nothing to do, whose ages and clock go on, and of three hosts that are made up, of
// which one changes twice a second.
func TopIdle(ctx context.Context, s *suite.Suite) error {
	want := suite.Want("ours", "<=", 200)
	ds, err := testbed.NewDaemons(ctx, s, 3)
	if err != nil {
		return err
	}
	s.Progress("three daemons run")
	err = top(ctx, s, ds.Exe, ds.Hosts[1].Socket(), suite.Series{Name: "skein top, 3 idle daemons", Unit: "B/s", Target: want, Digest: suite.Median})
	if err := errors.Join(err, ds.Close()); err != nil {
		return err
	}
	made, err := watchbench.Serve(ctx, 3, 1)
	if err != nil {
		return err
	}
	run, stop := context.WithCancel(ctx)
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		for i := 0; suite.Pause(run, time.Second/2) == nil; i++ {
			made.Change(i % 2)
		}
	}()
	err = top(ctx, s, ds.Exe, made.Socket, suite.Series{Name: "skein top, 3 hosts, 2 changes a second", Unit: "B/s", Target: want, Digest: suite.Median})
	stop()
	<-changed
	return errors.Join(err, made.Close())
}

// top adds the row of what a daemon has it write.
func top(ctx context.Context, s *suite.Suite, exe, socket string, row suite.Series) (err error) {
	t, err := openTerminal()
	if err != nil {
		s.Skip(row.Name, "no terminal: "+err.Error())
		return nil
	}
	defer func() { err = errors.Join(err, t.close()) }()
	cmd := exec.CommandContext(ctx, exe, "--socket", socket, "top")
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "LANG=C.UTF-8")
	said := &bytes.Buffer{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = t.slave, t.slave, said
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // it was killed
	}()
	if err := suite.Poll(ctx, "the first picture", 30*time.Second, func() bool { return t.bytes.Load() > 500 }); err != nil {
		return fmt.Errorf("%w: %d bytes: %s", err, t.bytes.Load(), said)
	}
	if err := suite.Pause(ctx, s.Size.Window); err != nil { // the start has its events
		return err
	}
	for i := range s.Size.Rounds {
		s.Progress("%s, window %d of %d", row.Name, i+1, s.Size.Rounds)
		before, began := t.bytes.Load(), time.Now()
		if err := suite.Pause(ctx, s.Size.Window); err != nil {
			return err
		}
		written := t.bytes.Load() - before
		if written == 0 && s.Size.Window >= 5*time.Second {
			return errors.New("skein top wrote nothing")
		}
		row.Ours = append(row.Ours, float64(written)/time.Since(began).Seconds())
	}
	s.Add(row)
	return nil
}

// terminal is one that a command runs on; what it writes is counted.
type terminal struct {
	master, slave *os.File
	bytes         atomic.Int64
	read          chan struct{} // closed when nothing is read any more
}

func openTerminal() (*terminal, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	t := &terminal{master: os.NewFile(uintptr(fd), "ptmx"), read: make(chan struct{})}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	err = errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0), unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: 80, Row: 24}))
	if err == nil {
		t.slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		return nil, errors.Join(err, t.master.Close())
	}
	go func() {
		defer close(t.read)
		b := make([]byte, 4096)
		for {
			n, err := t.master.Read(b)
			t.bytes.Add(int64(n))
			if err != nil {
				return
			}
		}
	}()
	return t, nil
}

func (t *terminal) close() error {
	err := errors.Join(t.slave.Close(), t.master.Close())
	<-t.read
	return err
}

// noTerminal is package tui as far as the commands name it, with nothing behind it.
const noTerminal = `package tui

import (
	"context"
	"os"

	"github.com/skein-project/skein/api"
)

type Verb string

const (
	StepDown Verb = "step-down"
	Drain    Verb = "drain"
	Undrain  Verb = "undrain"
	Stop     Verb = "stop"
	StopLoad Verb = "stop-load"
)

type Action struct {
	Verb         Verb
	Target, Name string
}

type Options struct {
	Color, ASCII, Mouse, Page bool
	Act                       func(Action) (string, error)
}

var Topics = []string{"status", "members", "links", "workers", "jobs", "onion", "events"}

const Tail = 200

type Watch func(ctx context.Context, heard func(api.WatchMessage) error, lost func(cause error)) error

func Run(context.Context, *os.File, *os.File, []string, Options, Watch) error { return nil }
`

// TopBinary is by how much the program is larger than one without a terminal: whose
// package tui has only what the commands name.
func TopBinary(ctx context.Context, s *suite.Suite) error {
	stub := filepath.Join(s.Dir, "notui.go")
	if err := os.WriteFile(stub, []byte(noTerminal), 0o600); err != nil {
		return err
	}
	tui, err := filepath.Abs(filepath.Join("..", "tui"))
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(tui, "*.go"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no sources in %s: %w", tui, err)
	}
	replace := map[string]string{}
	for _, f := range files {
		replace[f] = ""
	}
	replace[filepath.Join(tui, "run.go")] = stub
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	overlay := filepath.Join(s.Dir, "notui.json")
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return err
	}
	var sizes [2]int64
	for i, b := range []struct {
		name string
		args []string
	}{{"skein", nil}, {"skein-notui", []string{"-overlay", overlay}}} {
		exe, err := testbed.Program(ctx, s.Dir, b.name, b.args...)
		if err != nil {
			return err
		}
		info, err := os.Stat(exe)
		if err != nil {
			return err
		}
		sizes[i] = info.Size()
	}
	s.Progress("%d bytes, without the terminal %d", sizes[0], sizes[1])
	s.Add(suite.Series{
		Name: "the terminal's part of the program", Unit: "MB", Target: suite.Want("ours", "<=", 2), Digest: suite.Median,
		Ours: []float64{float64(sizes[0]-sizes[1]) / 1e6},
	})
	return nil
}
