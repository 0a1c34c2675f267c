package demo

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A process that computes runs for one part of its time in so many.
const (
	leisure       = 8
	leisurePeriod = 160 * time.Millisecond
)

// leisurely has whatever computes chunks in this test stand still for most of the time,
// as on a computer that does something else as well, and returns in how many parts of a
// job it then does one: a job that only has to last takes an eighth of a processor's time
// to do so, whatever else the machine does. In full nothing stands still.
//
// It is for processes whose command, or that of their parent, names a file of the test's
// directories or of those given. Daemons never stand still.
func leisurely(t *testing.T, dirs ...string) uint64 {
	t.Helper()
	if proving() {
		return 1
	}
	dirs = append(dirs, filepath.Dir(t.TempDir()))
	end, ended := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(end); <-ended })
	go func() {
		defer close(ended)
		r := runners{dirs: dirs, known: map[int]looked{}}
		for {
			all := r.look()
			tell(all, syscall.SIGSTOP)
			still := time.NewTimer(leisurePeriod * (leisure - 1) / leisure)
			select {
			case <-end:
			case <-still.C:
			}
			tell(all, syscall.SIGCONT)
			at := time.NewTimer(leisurePeriod / leisure)
			select {
			case <-end:
				return
			case <-at.C:
			}
		}
	}()
	return leisure
}

func tell(pids []int, s syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, s) // it may have ended
	}
}

// runners finds processes that compute chunks.
type runners struct {
	dirs  []string
	known map[int]looked
}

// looked is what is known of a process: whether it is one, and since when it is looked at.
type looked struct {
	is    bool
	since time.Time
}

// look returns those that there are now.
func (r *runners) look() (out []int) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // those that it says
	now := map[int]looked{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		p, known := r.known[pid]
		if !known {
			p.since = time.Now()
		}
		if !p.is && time.Since(p.since) < time.Second { // its program may begin still
			p.is = r.is(pid)
		}
		if now[pid] = p; p.is {
			out = append(out, pid)
		}
	}
	r.known = now
	return out
}

// is says whether a process is a runner of one of these directories.
func (r *runners) is(pid int) bool {
	args := command(pid)
	if len(args) < 2 || args[len(args)-1] != "runner" {
		return false
	}
	text := args[0]
	if stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat")); err == nil {
		_, rest, _ := strings.Cut(string(stat), ") ") // state, parent
		if f := strings.Fields(rest); len(f) > 1 {
			parent, _ := strconv.Atoi(f[1]) // digits
			text += " " + strings.Join(command(parent), " ")
		}
	}
	return slices.ContainsFunc(r.dirs, func(dir string) bool { return strings.Contains(text, dir+"/") })
}

// command is how a process was started.
func command(pid int) []string {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil || len(text) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}
