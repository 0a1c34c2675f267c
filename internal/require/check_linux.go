package require

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

func amd64() error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("the guest is x86-64, this is %s", runtime.GOARCH)
	}
	return nil
}

func tun() error {
	f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// netns makes one namespace with a pair of links and a packet filter table.
func netns() error {
	return isolated(`"$1" link add name veth0 type veth peer name veth1 && "$1" tuntap add dev tun0 mode tun && nft list ruleset`)
}

func kernelWG() error {
	return isolated(`"$1" link add name wg0 type wireguard`)
}

// isolated runs a shell command in its own network and mount namespaces, so
// that nothing of it stays. $1 is the program ip; under its bare name a shell
// may have one of its own.
func isolated(script string) error {
	ip, err := exec.LookPath("ip")
	if err != nil {
		return err
	}
	cmd := exec.Command("sh", "-ec", script, "sh", ip)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	if out, err := cmd.CombinedOutput(); err != nil {
		if text := string(bytes.TrimSpace(out)); text != "" {
			return errors.New(strings.ReplaceAll(text, "\n", ", "))
		}
		return fmt.Errorf("new network namespace: %w", err)
	}
	return nil
}

// staticBusybox refuses a busybox that needs libraries: the guest has none.
func staticBusybox() error {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return err
	}
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	defer func() { _ = f.Close() }()
	if libs, err := f.ImportedLibraries(); err == nil && len(libs) > 0 {
		return fmt.Errorf("%s is not static (package busybox-static is)", path)
	}
	return nil
}

// CgroupMount returns where cgroup v2 is mounted and groups can be made.
func CgroupMount() (string, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", err
	}
	err = errors.New("cgroup v2 is not mounted")
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[2] != "cgroup2" {
			continue
		}
		var dir string
		if dir, err = os.MkdirTemp(fields[1], "skein-try-"); err == nil {
			return fields[1], os.Remove(dir)
		}
	}
	return "", err
}
