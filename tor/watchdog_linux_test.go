package tor

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// TestMain lets the test binary stand in for the program: as a watchdog, and as
// a daemon that hangs or dies.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "watchdog":
			os.Exit(Watchdog(os.Args[2:], os.Stdin, os.Stderr))
		case "daemon":
			os.Exit(doomedDaemon(os.Args[2], os.Args[3], os.Args[4]))
		}
	}
	os.Exit(m.Run())
}

// How a daemon of these tests is.
const (
	alone = "alone" // without a watchdog
	stuck = "stuck" // its loop hangs
)

// testSilence is how long a daemon of these tests may be silent.
const testSilence = 600 * time.Millisecond

// doomedDaemon runs a tor and prints its process id and that of its watchdog,
// of each one that it has. If stuck it makes no progress after that; if alone it has
// no watchdog, whose process id is 0 then.
func doomedDaemon(dir, program, how string) int {
	watchdog := []string{"/proc/self/exe", "watchdog"}
	if how == alone {
		watchdog = nil
	}
	x, err := New(Options{
		Program: program, Dir: dir, Log: zerolog.Nop(), Watchdog: watchdog,
		Silence: testSilence, stuck: time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	go func() {
		last := ""
		for ; ; time.Sleep(20 * time.Millisecond) {
			if pid := x.Status().Pid; pid != 0 {
				others := childrenBut(pid)
				if how == alone {
					others = " 0"
				}
				if line := fmt.Sprint(pid, others); line != last && others != "" {
					fmt.Println(line)
					last = line
				}
			}
			if how != stuck || last == "" {
				x.Beat()
			}
		}
	}()
	_ = x.Run(context.Background())
	return 0
}

// childrenBut are the children of this process but for one, each after a blank.
func childrenBut(pid int) (list string) {
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, file := range tasks {
		text, _ := os.ReadFile(file)
		for child := range strings.FieldsSeq(string(text)) {
			if child != strconv.Itoa(pid) {
				list += " " + child
			}
		}
	}
	return list
}

// running reports whether a process is there and no zombie, which nobody may
// collect where these tests run.
func running(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// TestEndsWithItsDaemon has a daemon die, hang as a whole, and hang in its loop:
// its tor ends soon, also one that the kernel does not kill with it.
func TestEndsWithItsDaemon(t *testing.T) {
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("needs setpriv")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "tor")
	// A tor without the parent-death signal, as one has that changed its user.
	text := "#!/bin/sh\n[ \"$1\" = --version ] && echo 'Tor version 0.4.9.11.' && exit 0\nexec setpriv --pdeathsig clear sleep 60\n"
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, how string
		do        func(t *testing.T, daemon *os.Process, watchdog int)
	}{
		{"killed", "", func(t *testing.T, daemon *os.Process, _ int) { send(t, daemon.Pid, syscall.SIGKILL) }},
		{"hangs", "", func(t *testing.T, daemon *os.Process, _ int) { send(t, daemon.Pid, syscall.SIGSTOP) }},
		{"loop hangs", stuck, func(*testing.T, *os.Process, int) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := startDoomed(t, program, c.how)
			tor, watchdog := d.next(t)
			c.do(t, d.cmd.Process, watchdog)
			d.awaitEnd(t, tor, time.Minute)
		})
	}
	t.Run("watchdog dies", func(t *testing.T) {
		t.Parallel()
		d := startDoomed(t, program, "")
		tor, watchdog := d.next(t)
		send(t, watchdog, syscall.SIGKILL)
		again, second := d.next(t)
		if again != tor || second == watchdog {
			t.Fatalf("tor %d, watchdog %d; then tor %d, watchdog %d", tor, watchdog, again, second)
		}
		send(t, d.cmd.Process.Pid, syscall.SIGSTOP)
		d.awaitEnd(t, tor, time.Minute)
	})
}

// TestKernelEndsIt: tor dies with its daemon by the kernel's signal alone, without a
// watchdog and without a process of this test in between.
func TestKernelEndsIt(t *testing.T) {
	program := filepath.Join(t.TempDir(), "tor")
	text := "#!/bin/sh\n[ \"$1\" = --version ] && echo 'Tor version 0.4.9.11.' && exit 0\nexec sleep 60\n"
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	d := startDoomed(t, program, alone)
	tor, watchdog := d.next(t)
	if watchdog != 0 {
		t.Fatalf("there is a watchdog, %d", watchdog)
	}
	if parent := parentOf(t, tor); parent != d.cmd.Process.Pid {
		t.Fatalf("tor is a child of %d, its daemon is %d", parent, d.cmd.Process.Pid)
	}
	send(t, d.cmd.Process.Pid, syscall.SIGKILL)
	d.awaitEnd(t, tor, 30*time.Second) // by itself it ends after 60 s
}

// parentOf is the parent of a process that lives.
func parentOf(t *testing.T, pid int) (parent int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	if _, err := fmt.Sscanf(rest, "%c %d", new(rune), &parent); err != nil {
		t.Fatal(err)
	}
	return parent
}

func send(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if pid <= 1 {
		t.Fatalf("no process %d", pid)
	}
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}

// doomed is a daemon that runs as a process of its own.
type doomed struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func startDoomed(t *testing.T, program, how string) *doomed {
	t.Helper()
	d := &doomed{cmd: exec.Command("/proc/self/exe", "daemon", filepath.Join(t.TempDir(), "t"), program, how)} //nolint:noctx // killed below
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.cmd.Stderr = os.Stderr
	d.lines = bufio.NewScanner(out)
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill() // it may have ended
		_ = d.cmd.Wait()
	})
	return d
}

// next returns the next pair that the daemon prints.
func (d *doomed) next(t *testing.T) (tor, watchdog int) {
	t.Helper()
	if !d.lines.Scan() {
		t.Fatal("the daemon ended")
	}
	if n, err := fmt.Sscan(d.lines.Text(), &tor, &watchdog); n != 2 {
		t.Fatalf("the daemon says %q: %v", d.lines.Text(), err)
	}
	return tor, watchdog
}

func (d *doomed) awaitEnd(t *testing.T, tor int, most time.Duration) {
	t.Helper()
	begin := time.Now()
	for running(tor) {
		if time.Since(begin) > most {
			_ = syscall.Kill(tor, syscall.SIGKILL)
			t.Fatalf("tor still runs after %s", most)
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("tor ended after %s", time.Since(begin).Round(time.Millisecond))
}
