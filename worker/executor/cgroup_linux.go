package executor

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupPatience is how long the processes of a group may take to end.
const cgroupPatience = 2 * time.Second

// cgroupPause is the time between two rounds of killing.
const cgroupPause = 5 * time.Millisecond

// cgroups is a directory of cgroup v2 that was delegated to this daemon.
type cgroups struct {
	dir         string
	controllers []string // of memory, pids and cpu, those that can limit here
}

// openCgroups looks what dir offers, and removes what an earlier process left.
func openCgroups(dir string) (*cgroups, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return nil, err
	}
	if st.Type != unix.CGROUP2_SUPER_MAGIC {
		return nil, errors.New("not a directory of cgroup v2")
	}
	offered, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return nil, err
	}
	g := &cgroups{dir: dir}
	for _, c := range []string{"memory", "pids", "cpu"} {
		if !slices.Contains(strings.Fields(string(offered)), c) {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0); err != nil {
			return nil, fmt.Errorf("enable %s, is it delegated and without processes of its own: %w", c, err)
		}
		g.controllers = append(g.controllers, c)
	}
	old, err := filepath.Glob(filepath.Join(dir, "skein-chunk-*"))
	if err != nil {
		return nil, err
	}
	for _, o := range old {
		if err := (&cgroup{dir: o}).remove(); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// limits says whether the groups limit what controller is for.
func (g *cgroups) limits(controller string) bool { return slices.Contains(g.controllers, controller) }

// cgroup is the group of one attempt.
type cgroup struct {
	dir string
	fd  *os.File // open until remove
}

// group makes the group of an attempt; nil: there are none.
func (e *Exec) group(memory uint64) (*cgroup, error) {
	g := e.groups
	if g == nil {
		return nil, nil //nolint:nilnil // no group is a group: see cgroup's methods
	}
	dir, err := os.MkdirTemp(g.dir, "skein-chunk-")
	if err != nil {
		return nil, fmt.Errorf("make cgroup: %w", err)
	}
	c := &cgroup{dir: dir}
	for _, l := range []struct{ controller, file, value string }{
		{"memory", "memory.max", strconv.FormatUint(memory, 10)},
		{"memory", "memory.swap.max", "0"},
		{"pids", "pids.max", strconv.Itoa(e.opts.Processes)},
		{"cpu", "cpu.max", "100000 100000"}, // one processor, as a slot is
	} {
		if !g.limits(l.controller) {
			continue
		}
		err := os.WriteFile(filepath.Join(dir, l.file), []byte(l.value), 0)
		if l.file == "memory.swap.max" && errors.Is(err, fs.ErrNotExist) {
			continue // a kernel without swap
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("limit cgroup: %w", err), c.remove())
		}
	}
	if c.fd, err = os.Open(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("open cgroup: %w", err), c.remove())
	}
	return c, nil
}

// killedForMemory says whether the kernel killed for the limit of memory.
func (c *cgroup) killedForMemory() bool {
	if c == nil {
		return false
	}
	b, err := os.ReadFile(filepath.Join(c.dir, "memory.events"))
	if err != nil {
		return false // no limit of memory
	}
	for line := range bytes.Lines(b) {
		if n, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("oom_kill ")); ok {
			return string(n) != "0"
		}
	}
	return false
}

func (e *Exec) removeGroup(c *cgroup) {
	if c == nil {
		return
	}
	if err := c.remove(); err != nil {
		e.log.Error().Err(err).Msg("cgroup of a chunk not removed")
	}
}

// remove kills all that is in the group, wherever it hid, and removes it.
func (c *cgroup) remove() error {
	if c.fd != nil {
		_ = c.fd.Close() // read only
	}
	for deadline := time.Now().Add(cgroupPatience); ; time.Sleep(cgroupPause) {
		if err := os.WriteFile(filepath.Join(c.dir, "cgroup.kill"), []byte("1"), 0); err != nil { // before Linux 5.14
			pids, _ := os.ReadFile(filepath.Join(c.dir, "cgroup.procs")) // none are none
			for p := range strings.FieldsSeq(string(pids)) {
				if pid, err := strconv.Atoi(p); err == nil && pid > 0 {
					_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
				}
			}
		}
		err := os.Remove(c.dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("remove cgroup: %w", err)
		}
	}
}

// supervised puts a supervisor into its own process group, and with all that
// will descend from it into the attempt's cgroup.
func supervised(cmd *exec.Cmd, c *cgroup) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if c != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(c.fd.Fd())
	}
}
