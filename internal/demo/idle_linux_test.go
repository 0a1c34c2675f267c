package demo

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What a daemon of three that have nothing to do may take.
const (
	idleTime   = 10 * time.Minute
	idleSettle = 30 * time.Second // after the start
	idleMemory = 40_000_000       // bytes, at any time
	idleCPU    = 0.005            // of one core, on the average
	idleBytes  = 0                // written to the disk
	idleLook   = 10 * time.Second // between looks at the memory
)

// use is what a process has taken so far.
type use struct {
	cpu      time.Duration
	resident int64 // bytes, now
	written  int64 // bytes
	switches int64 // times that a thread waited
}

// usedBy reads what the process has taken.
func usedBy(pid int) (u use, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, err
	}
	// The name of the program, in parentheses, may contain spaces.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return u, fmt.Errorf("/proc/%d/stat: %q", pid, stat)
	}
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return u, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		u.cpu += time.Duration(n) * tick
	}
	if u.resident, err = procField(fmt.Sprintf("/proc/%d/status", pid), "VmRSS"); err != nil {
		return u, err
	}
	u.resident *= 1024
	if u.written, err = procField(fmt.Sprintf("/proc/%d/io", pid), "write_bytes"); err != nil {
		return u, err
	}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return u, err
	}
	for _, t := range threads {
		n, err := procField(fmt.Sprintf("/proc/%d/task/%s/status", pid, t.Name()), "voluntary_ctxt_switches")
		if err != nil {
			return u, err
		}
		u.switches += n
	}
	return u, nil
}

// procField reads a number that a file of /proc gives a name.
func procField(file, name string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			return strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		}
	}
	return 0, fmt.Errorf("%s: no %s", file, name)
}

// load is how many processes want to run, on the average of the last minute.
func load(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(text))[0]
}

// waker starts a program that only sleeps wakes again and again, and returns its
// process: it shows what waking costs here.
func waker(t *testing.T) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), wakesOnly+"=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	return cmd.Process.Pid
}

// TestIdle measures what three hosts that have nothing to do take of the machine:
// an operator does not want to notice that skein is there.
func TestIdle(t *testing.T) {
	if !proving() {
		t.Skip("takes 10 minutes; make prove-idle runs it")
	}
	d, ctx := startWith(t, 3, calm)
	look := func(h *host) use {
		u, err := usedBy(h.cmd.Process.Pid)
		if err != nil {
			t.Fatalf("%s: %v", h.name, err)
		}
		return u
	}
	pause := func(until time.Time) {
		select {
		case <-time.After(time.Until(until)):
		case <-t.Context().Done():
			t.Fatal("not measured to the end")
		}
	}
	holder, err := d.holder(ctx)
	if err != nil {
		t.Fatal(err)
	}
	pause(time.Now().Add(idleSettle))

	waker := waker(t)
	first, most := map[*host]use{}, map[*host]int64{}
	waking, err := usedBy(waker)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for _, h := range d.hosts {
		first[h] = look(h)
	}
	t.Logf("load average before: %s", load(t))
	for at := began; at.Before(began.Add(idleTime)); {
		at = at.Add(idleLook)
		pause(at)
		for _, h := range d.hosts {
			most[h] = max(most[h], look(h).resident)
		}
	}
	took := time.Since(began)
	t.Logf("load average after: %s; others that compute make the figures of this machine larger", load(t))
	woken, err := usedBy(waker)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("for comparison, a Go program that only sleeps %s at a time: %.2f %% of a core", wakes, 100*float64(woken.cpu-waking.cpu)/float64(took))
	for _, h := range d.hosts {
		u := look(h)
		cpu := float64(u.cpu-first[h].cpu) / float64(took)
		written := u.written - first[h].written
		role := "standby"
		if h == holder {
			role = "holder"
		}
		t.Logf("%s %s: %.2f %% of a core, at most %.1f MB resident (%.1f at the end), %d bytes written, %.0f waits a second, over %s", h.name, role,
			100*cpu, float64(most[h])/1e6, float64(u.resident)/1e6, written, float64(u.switches-first[h].switches)/took.Seconds(), took.Round(time.Second))
		if cpu > idleCPU {
			t.Errorf("%s takes %.2f %% of a core, want at most %.2f %%", h.name, 100*cpu, 100*idleCPU)
		}
		if most[h] > idleMemory {
			t.Errorf("%s has %.1f MB resident, want at most %.1f MB", h.name, float64(most[h])/1e6, idleMemory/1e6)
		}
		if written > idleBytes {
			t.Errorf("%s wrote %d bytes, want at most %d", h.name, written, idleBytes)
		}
	}
}
