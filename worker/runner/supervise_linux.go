package runner

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Times of a supervisor.
const (
	superviseEvery = 200 * time.Millisecond // looks at scratch space and at orphans
	killPause      = 5 * time.Millisecond   // between two rounds of killing
	killPatience   = 5 * time.Second        // then what is left cannot be killed
)

// supervise runs a program to its end, and returns the exit code of the
// supervisor itself.
func supervise(s Program, orders io.Reader, report io.Writer) int {
	if err := WriteFrame(report, runProgram(s, orders)); err != nil {
		return 1
	}
	return 0
}

func runProgram(s Program, orders io.Reader) End {
	runtime.LockOSThread() // the kernel kills the program when this thread ends
	ignored := make(chan os.Signal, 1)
	// Caught and not read, rather than ignored: a program would inherit that.
	signal.Notify(ignored, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	cmd, err := prepareProgram(s)
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return End{Failed: err.Error()}
	}
	pid := cmd.Process.Pid
	if s.DataBytes > 0 {
		limit := unix.Rlimit{Cur: s.DataBytes, Max: s.DataBytes}
		_ = unix.Prlimit(pid, unix.RLIMIT_DATA, &limit, nil) // it may have ended
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // how it ended is in its state
	}()
	order := make(chan bool) // true: stop, closed: at once; its goroutine ends with the process
	go func() {
		defer close(order)
		b := make([]byte, 1)
		for {
			if _, err := orders.Read(b); err != nil {
				return
			}
			switch b[0] {
			case OrderStop:
				order <- true
			case OrderSave:
				select {
				case <-ended:
				default:
					_ = unix.Kill(pid, unix.SIGUSR1) // it may just have ended
				}
			}
		}
	}()

	end := watchProgram(pid, s, ended, order)
	end.Exit = cmd.ProcessState.ExitCode()
	if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		end.Signal = w.Signal().String()
	}
	end.Left, end.Alive = killDescendants(0)
	return end
}

// watchProgram waits until the program has ended, and ends it when it must.
func watchProgram(pid int, s Program, ended <-chan struct{}, order <-chan bool) End {
	var end End
	var grace <-chan time.Time
	tick := time.NewTicker(superviseEvery)
	defer tick.Stop()
	for {
		select {
		case <-ended: // how is in the process state
			return end
		case graceful, open := <-order:
			end.Stopped = true
			if !open {
				order = nil
			}
			if graceful && grace == nil {
				_ = unix.Kill(-pid, unix.SIGTERM) // it may have ended
				grace = time.After(time.Duration(s.GraceMillis) * time.Millisecond)
				continue
			}
			killDescendants(pid)
		case <-grace:
			killDescendants(pid)
		case <-tick.C:
			reapOrphans(pid)
			if !end.Scratch && s.ScratchBytes > 0 && treeLarger(".", s.ScratchBytes) {
				end.Scratch = true
				killDescendants(pid)
			}
		}
	}
}

// prepareProgram lowers what the process and its descendants can take, and
// makes the command.
func prepareProgram(s Program) (*exec.Cmd, error) {
	// What the program leaves behind becomes a child of this process, wherever
	// it went, and can be found.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	// The daemon's capabilities are not the program's.
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) // an old kernel has none
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, runnerNice)
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0o600)
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	if s.ScratchBytes > 0 {
		limit := uint64(s.ScratchBytes)
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return nil, err
		}
	}
	out, said := os.NewFile(3, "standard output"), os.NewFile(4, "standard error")
	if err := closeOnExec(); err != nil {
		return nil, err
	}
	input := s.Input
	if input == "" {
		input = os.DevNull
	}
	in, err := os.Open(input)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(s.Path, s.Args...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = s.Env, in, out, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if s.Switch {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: s.UID, Gid: s.GID}
	}
	return cmd, nil
}

// closeOnExec keeps all descriptors of this process from the program, also those
// that the daemon was started with.
func closeOnExec() error {
	if unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return nil
	}
	entries, err := os.ReadDir("/proc/self/fd") // before Linux 5.11
	if err != nil {
		return err
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// process is a line of the process table.
type process struct {
	pid, parent int
	zombie      bool
}

// descendants lists what descends from this process, whatever group or session
// it is in. What ends meanwhile may hide a sibling: look again.
func descendants() []process {
	out := childrenOf(os.Getpid())
	for i := 0; i < len(out); i++ {
		out = append(out, childrenOf(out[i].pid)...)
	}
	return out
}

// childrenOf asks the kernel for the children of a process; a kernel that does
// not list them is asked for all processes.
func childrenOf(parent int) []process {
	tasks := "/proc/" + strconv.Itoa(parent) + "/task/"
	entries, err := os.ReadDir(tasks)
	if err != nil {
		return nil // it has ended
	}
	var out []process
	for _, e := range entries {
		list, err := os.ReadFile(tasks + e.Name() + "/children")
		if err != nil {
			if _, err := os.Stat(tasks + e.Name()); err == nil {
				return scanChildren(parent)
			}
			continue // the thread has ended
		}
		for text := range strings.FieldsSeq(string(list)) {
			if pid, err := strconv.Atoi(text); err == nil {
				if p, ok := lookAt(pid); ok {
					out = append(out, p)
				}
			}
		}
	}
	return out
}

// scanChildren finds children among all processes.
func scanChildren(parent int) []process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []process
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if p, ok := lookAt(pid); ok && p.parent == parent {
				out = append(out, p)
			}
		}
	}
	return out
}

// lookAt reads the line of one process.
func lookAt(pid int) (process, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false // it has ended
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // a name may hold anything
	if len(fields) < 2 {
		return process{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	return process{pid: pid, parent: parent, zombie: fields[0] == "Z"}, err == nil
}

// reapOrphans buries what was left to this process; main is waited for
// elsewhere.
func reapOrphans(main int) {
	for _, p := range descendants() {
		if p.zombie && p.pid != main && p.parent == os.Getpid() {
			_, _ = unix.Wait4(p.pid, nil, unix.WNOHANG, nil) // nobody asks how it ended
		}
	}
}

// killDescendants kills until nothing is left; main, if not 0, is reaped
// elsewhere. It returns how many it killed and how many it could not.
func killDescendants(main int) (killed, alive int) {
	seen := map[int]bool{}
	none := 0 // times in a row that nothing was left
	for deadline := time.Now().Add(killPatience); ; time.Sleep(killPause) {
		all := descendants()
		living := all[:0:0]
		for _, p := range all {
			if !p.zombie {
				living = append(living, p)
			}
		}
		// Stopped first, so that a fork bomb does not outrun the killing.
		for _, p := range living {
			_ = unix.Kill(p.pid, unix.SIGSTOP) // it may have ended
		}
		for _, p := range living {
			_ = unix.Kill(p.pid, unix.SIGKILL) // it may have ended
			seen[p.pid] = true
		}
		reapOrphans(main)
		if none++; len(living) > 0 {
			none = 0
		}
		if none == 2 || time.Now().After(deadline) {
			return len(seen), len(living)
		}
	}
}

// treeLarger reports that the files below dir take more than limit bytes.
func treeLarger(dir string, limit int64) bool {
	var sum int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // the program removes files meanwhile
		}
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				sum += st.Blocks*512 + 512 // many empty files are no way out
			}
		}
		if sum > limit {
			return errors.New("enough")
		}
		return nil
	})
	return sum > limit
}
