package executor

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/wasmtest"
	"github.com/skein-project/skein/worker/artefact"
)

// A daemon that is killed leaves no child behind, even one whose guest never
// comes back.
func TestKilledDaemonLeavesNoChild(t *testing.T) {
	dir := t.TempDir()
	store, err := artefact.New(artefact.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	hash, err := store.Put(bytes.NewReader(wasmtest.Assemble("", wasmtest.Forever())), job.MaxModuleBytes)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "daemon", dir, hash.String())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	poll(t, "the guest to run", func() bool { return cpuTicks(child) > 5 })
	poll(t, "the child to run at nice 10", func() bool { return statField(t, child, 18) == "10" })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	poll(t, "the child to die", func() bool { return dead(child) })
}

// doomedExecDaemon runs a program that does not end, until it is killed.
func doomedExecDaemon(mode, dir, mark string) int {
	store, err := artefact.New(artefact.Options{Dir: filepath.Join(dir, "artefacts")})
	if err != nil {
		return 1
	}
	exe, err := os.Executable()
	if err != nil {
		return 1
	}
	e, err := NewExec(ExecOptions{
		Artefacts: store, ScratchDir: filepath.Join(dir, "scratch"), Logger: zerolog.Nop(), MemoryBytes: job.MaxMemoryBytes,
		Programs: map[string][]string{mode: {exe, "program", mode, mark}},
	})
	if err != nil {
		return 1
	}
	_, err = e.Execute(context.Background(), 0, execHost{}.task(mode))
	fmt.Println("ended:", err)
	return 1
}

// A daemon that is killed leaves no program behind: the supervisor sees that its
// orders end, and ends all that the program has started, wherever that went. If the
// supervisor is killed as well, the kernel ends the program.
func TestKilledDaemonLeavesNoProgram(t *testing.T) {
	for name, c := range map[string]struct {
		mode, last string // last: the mode of the process that starts last
		supervisor bool   // is killed, and first
	}{
		"daemon":     {"escapes", "sleep", false},
		"supervisor": {"deaf", "deaf", true},
	} {
		t.Run(name, func(t *testing.T) {
			h := execHost{mark: "mark-" + strings.ReplaceAll(t.TempDir(), "/", "-")}
			cmd := exec.Command("/proc/self/exe", "exec daemon", c.mode, t.TempDir(), h.mark)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = cmd.Process.Kill() // it was, unless the test failed before
				_ = cmd.Wait()
			}()
			programs := func(mode string) (pids []int) {
				for _, line := range h.processes() {
					before, _, ok := strings.Cut(line, " program "+mode)
					pid, _, _ := strings.Cut(before, "/")
					if n, err := strconv.Atoi(pid); ok && err == nil {
						pids = append(pids, n)
					}
				}
				return pids
			}
			poll(t, "the program to run", func() bool { return len(programs(c.last)) > 0 })
			if c.supervisor {
				supervisor, err := strconv.Atoi(statField(t, programs(c.mode)[0], 3))
				if err != nil || statField(t, supervisor, 3) != strconv.Itoa(cmd.Process.Pid) {
					t.Fatalf("the program runs under %d, %v, which is no child of the daemon", supervisor, err)
				}
				if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			} else if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			poll(t, "all programs to die", func() bool { return len(programs("")) == 0 })
		})
	}
}

// dead reports whether a process has ended. A zombie that nobody reaps in a container is
// dead as well.
func dead(pid int) bool {
	return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || strings.Contains(stat(pid), ") Z ")
}

// A service manager's stop signal is for the daemon, which drains.
func TestRunnerIgnoresStopSignals(t *testing.T) {
	h := newWASMHost(t, nil)
	task := h.put(t, wasmtest.Assemble(wasmtest.GoodResult, wasmtest.Write(1)))
	if _, err := h.Execute(t.Context(), 0, task); err != nil {
		t.Fatal(err)
	}
	for c := range h.live {
		for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
			if err := c.cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := h.Execute(t.Context(), 0, task); err != nil {
			t.Fatal(err)
		}
		if !h.live[c] || len(h.live) != 1 {
			t.Error("the child was replaced")
		}
	}
}

func stat(pid int) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	return string(b)
}

// statField returns a field after the command of /proc/pid/stat, whose first
// is number 2: the state is 2, nice is 18.
func statField(t *testing.T, pid, n int) string {
	t.Helper()
	_, rest, _ := strings.Cut(stat(pid), ") ")
	fields := strings.Fields(rest)
	if len(fields) < n {
		t.Fatalf("stat of %d: %q", pid, rest)
	}
	return fields[n-2]
}

func cpuTicks(pid int) int {
	_, rest, _ := strings.Cut(stat(pid), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	n, _ := strconv.Atoi(fields[11])
	return n
}
