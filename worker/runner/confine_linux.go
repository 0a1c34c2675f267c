package runner

import (
	"bufio"
	"math"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// runnerNice is the priority of runners below that of the daemon: under load
// heartbeats win.
const runnerNice = 10

// memorySlack is what a runner may allocate beyond the guest's linear memory:
// compiled code, tables and the runner itself need room.
const memorySlack = 1 << 30

// confine lowers what a runner can take from its host. All of it is a second
// wall; a host that refuses one of these calls still runs guests.
func confine() {
	if pid := os.Getpid(); syscall.Getpgrp() == pid { // started as a runner, not in somebody's group
		_ = unix.Setpriority(unix.PRIO_PGRP, pid, runnerNice) // all threads
		_ = os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0o600)
		// A service manager signals the whole service. The daemon drains then:
		// it ends its runners itself, and a chunk under way is no failure.
		signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	}
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	_ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// limitMemory bounds the process's private memory while a guest of the given
// linear memory runs. It returns how to lift the bound.
func limitMemory(guest uint64) func() {
	used, ok := dataBytes()
	var old unix.Rlimit
	if !ok || unix.Getrlimit(unix.RLIMIT_DATA, &old) != nil || used > math.MaxInt64 {
		return func() {}
	}
	limit := unix.Rlimit{Cur: min(used+guest+memorySlack, old.Max), Max: old.Max}
	if unix.Setrlimit(unix.RLIMIT_DATA, &limit) != nil {
		return func() {}
	}
	return func() { _ = unix.Setrlimit(unix.RLIMIT_DATA, &old) } // it only rises
}

// dataBytes is the size of the process's private writable memory.
func dataBytes() (uint64, bool) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, false
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "VmData:"); ok {
			kb, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10, err == nil
		}
	}
	return 0, false
}
