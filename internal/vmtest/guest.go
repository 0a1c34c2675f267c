package vmtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrNoVerdict is a guest that ended, or was ended, before it said how its
// script went: it crashed, hung or never started.
var ErrNoVerdict = errors.New("the guest gave no verdict")

// Guest describes one boot.
type Guest struct {
	// Kernel boots; required.
	Kernel *Kernel
	// Modules are inserted before the script, with what they need. They lie
	// in the directory /modules.
	Modules []string
	// Files fill the initial file system, beside busybox under all its names
	// in /bin.
	Files []File
	// Script is run by /bin/sh when the modules are in and the usual file
	// systems are mounted; its exit status is the verdict. It may instead
	// hand over with "exec switch_root" to something that prints the
	// verdict and powers off.
	Script string
	// Disk is a raw image the guest sees as /dev/vda; what it writes is
	// thrown away. Empty: none.
	Disk string
	// Memory is in MiB; zero: 512.
	Memory int
	// Timeout ends the guest; zero: 1200 s.
	Timeout time.Duration
	// Console receives what the guest prints, as it comes; nil: nobody.
	Console io.Writer
}

// Result is how a boot went.
type Result struct {
	// RC is the exit status of the script.
	RC int
	// Log is what the guest printed.
	Log string
	// Took is how long the machine ran.
	Took time.Duration
}

// Boot runs the guest in a directory of its own below dir, until it powers
// off. It returns ErrNoVerdict, with the Result, if the guest did not say how
// its script went.
func Boot(ctx context.Context, dir string, g Guest) (*Result, error) {
	if g.Kernel == nil {
		return nil, errors.New("boot guest: no kernel")
	}
	if g.Timeout == 0 {
		g.Timeout = 1200 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, g.Timeout)
	defer cancel()
	initrd := filepath.Join(dir, "initrd")
	if err := g.writeInitrd(ctx, initrd); err != nil {
		return nil, fmt.Errorf("boot guest: %w", err)
	}
	defer func() { _ = os.Remove(initrd) }()

	var log bytes.Buffer
	out := io.Writer(&log)
	if g.Console != nil {
		out = io.MultiWriter(&log, g.Console)
	}
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", g.arguments(initrd)...)
	cmd.Stdout, cmd.Stderr = out, out
	start := time.Now()
	runErr := cmd.Run()
	r := &Result{Log: strings.ReplaceAll(log.String(), "\r\n", "\n"), Took: time.Since(start)}
	rc, ok := verdict(r.Log)
	if !ok {
		return r, fmt.Errorf("%w in %s: %w", ErrNoVerdict, r.Took.Round(time.Second), errors.Join(runErr, ctx.Err()))
	}
	r.RC = rc
	return r, nil
}

func (g Guest) arguments(initrd string) []string {
	memory := g.Memory
	if memory == 0 {
		memory = 512
	}
	args := []string{
		// Without the instructions that copy any number of bytes at once: emulated, they
		// copy one after the other, and a fifth of all that a guest does is to copy pages.
		// Without a fifth level of page tables and what guards the kernel against its
		// programs, each access of memory that is not remembered costs less.
		"-machine", "accel=tcg", "-cpu", "max,erms=off,fsrm=off,la57=off,smap=off,smep=off,umip=off,pku=off", "-smp", "2", "-m", strconv.Itoa(memory),
		"-nodefaults", "-no-user-config", "-nographic", "-serial", "stdio", "-no-reboot",
		"-kernel", g.Kernel.Image, "-initrd", initrd,
		// The emulated processors count alike, though the kernel, which is told so, measures
		// otherwise: else each look at the time, which programs of Go have all the while,
		// is a call of the kernel and of a device. Nobody attacks a guest.
		"-append", "console=ttyS0 quiet no_timer_check tsc=reliable mitigations=off panic=-1 oops=panic rdinit=/init",
	}
	if g.Disk != "" {
		args = append(args, "-drive", "file="+g.Disk+",format=raw,if=virtio,snapshot=on")
	}
	return args
}

var verdictLine = regexp.MustCompile(`(?m)^VMTEST rc=(\d+)$`)

// verdict finds the last verdict in a guest's output.
func verdict(log string) (int, bool) {
	all := verdictLine.FindAllStringSubmatch(log, -1)
	if len(all) == 0 {
		return 0, false
	}
	rc, err := strconv.Atoi(all[len(all)-1][1])
	return rc, err == nil
}

// initScript mounts, inserts and runs. The verdict begins a line even if the
// script's last one did not end.
const initScript = `#!/bin/busybox sh
export PATH=/bin:/usr/sbin HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
while read -r m; do insmod "/modules/$m" || echo "insmod $m failed"; done </modules/order
mkdir -p /dev/net /var
ln -s /run /var/run
[ -e /dev/net/tun ] || mknod /dev/net/tun c 10 200
ip link set lo up
# Should the test be gone by then.
(sleep "$(cat /timeout)"; reboot -f) &
. /script
`

// script wraps what the caller gave: the verdict is its exit status.
func (g Guest) script() string {
	return "sh /script.body\nrc=$?\necho\necho \"VMTEST rc=$rc\"\npoweroff -f\n"
}

func (g Guest) writeInitrd(ctx context.Context, file string) error {
	files, err := g.baseFiles(ctx)
	if err != nil {
		return err
	}
	order := g.Kernel.Load(g.Modules...)
	var names strings.Builder
	for _, object := range order {
		text, err := g.Kernel.read(ctx, object)
		if err != nil {
			return fmt.Errorf("read module: %w", err)
		}
		name := moduleName(object) + ".ko"
		fmt.Fprintln(&names, name)
		files = append(files, File{Path: "/modules/" + name, Mode: 0o644, Text: text})
	}
	run := g.script()
	if g.Disk != "" {
		// Only the first process can switch the root.
		run = g.Script
	}
	files = append(files,
		File{Path: "/modules/order", Mode: 0o644, Text: names.String()},
		File{Path: "/timeout", Mode: 0o644, Text: strconv.Itoa(int(g.Timeout.Seconds()) + 30)},
		File{Path: "/script", Mode: 0o644, Text: run},
		File{Path: "/script.body", Mode: 0o644, Text: g.Script})
	files = append(files, g.Files...)
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := writeCPIO(f, files); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

// baseFiles is busybox under all its names, and the mount points.
func (g Guest) baseFiles(ctx context.Context) ([]File, error) {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return nil, err
	}
	names, err := command(ctx, "", busybox, "--list")
	if err != nil {
		return nil, err
	}
	files := []File{Program("/bin/busybox", busybox), {Path: "/init", Mode: 0o755, Text: initScript}}
	for name := range strings.FieldsSeq(names) {
		// Where the guest brings its own program, busybox stands back.
		if name != "busybox" && !g.brings(name) {
			files = append(files, File{Path: "/bin/" + name, Mode: fs.ModeSymlink, Text: "busybox"})
		}
	}
	for _, dir := range []string{"/proc", "/sys", "/dev", "/tmp", "/run", "/etc", "/var", "/root", "/new"} {
		files = append(files, File{Path: dir, Mode: fs.ModeDir | 0o755})
	}
	return files, nil
}

func (g Guest) brings(name string) bool {
	return slices.ContainsFunc(g.Files, func(f File) bool { return path.Base(f.Path) == name })
}
