package executor

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

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
	poll(t, "the child to die", func() bool {
		// A zombie that nobody reaps in a container is dead as well.
		return errors.Is(syscall.Kill(child, 0), syscall.ESRCH) || strings.Contains(stat(child), ") Z ")
	})
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
