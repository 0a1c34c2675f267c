package nstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/internal/require"
)

// namePrefix begins the names of all namespaces; the process id follows.
const namePrefix = "sktest"

// stepTime bounds one command of the harness itself.
const stepTime = 20 * time.Second

// Network is a bridge in a namespace of its own with hosts on it.
type Network struct {
	t      testing.TB
	prefix string // of the names of its namespaces
	bridge string // namespace
	dir    string // one directory per host
	hosts  []*Host
}

// New makes a network without hosts that goes away with the test. It skips the
// test where namespaces cannot be made.
func New(t testing.TB) *Network {
	t.Helper()
	require.Need(t, require.Netns)
	sweep(t)
	// Not t.TempDir: the address of a unix socket in there must stay short.
	dir, err := os.MkdirTemp("", "nst-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	n := &Network{t: t, prefix: fmt.Sprintf("%s%dx%s-", namePrefix, os.Getpid(), filepath.Base(dir)), dir: dir}
	n.bridge = n.prefix + "br"
	n.addNamespace(n.bridge)
	n.step("ip", "-n", n.bridge, "link", "add", "br0", "type", "bridge", "forward_delay", "0", "stp_state", "0")
	n.step("ip", "-n", n.bridge, "link", "set", "br0", "up")
	return n
}

func (n *Network) addNamespace(name string) {
	n.t.Helper()
	n.t.Cleanup(func() { remove(n.t, name) })
	n.step("ip", "netns", "add", name)
	n.step("ip", "-n", name, "link", "set", "lo", "up")
}

// step runs one command that must succeed.
func (n *Network) step(argv ...string) {
	n.t.Helper()
	if err := command("", argv...); err != nil {
		n.t.Fatal(err)
	}
}

// Hosts returns the hosts in the order in which they were added.
func (n *Network) Hosts() []*Host { return n.hosts }

// Host adds a host. Its underlay address is 192.0.2.1 for the first, 192.0.2.2
// for the second, and so on, on a device named eth0.
func (n *Network) Host(name string) *Host {
	n.t.Helper()
	i := len(n.hosts) + 1
	if i > 253 {
		n.t.Fatal("nstest: a network holds 253 hosts")
	}
	h := &Host{
		n: n, name: name, ns: n.prefix + name, port: fmt.Sprintf("p%d", i), dir: filepath.Join(n.dir, name),
		addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}),
	}
	h.sockets = filepath.Join(h.dir, "wireguard")
	if err := os.MkdirAll(h.sockets, 0o700); err != nil {
		n.t.Fatal(err)
	}
	n.addNamespace(h.ns)
	n.step("ip", "-n", n.bridge, "link", "add", h.port, "type", "veth", "peer", "name", "eth0", "netns", h.ns)
	n.step("ip", "-n", n.bridge, "link", "set", h.port, "master", "br0", "up")
	n.step("ip", "-n", h.ns, "addr", "add", h.addr.String()+"/24", "dev", "eth0")
	n.step("ip", "-n", h.ns, "link", "set", "eth0", "up")
	h.awaitLink()
	n.hosts = append(n.hosts, h)
	return h
}

// command runs argv to its end; the error shows what it printed.
func command(stdin string, argv ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), stepTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// remove kills what runs in a namespace, waits for its end and deletes the
// namespace with all links in it.
func remove(t testing.TB, name string) {
	t.Helper()
	deadline := time.Now().Add(stepTime)
	for {
		ids, err := pidsIn(name)
		if err != nil || len(ids) == 0 {
			break
		}
		for _, id := range ids {
			_ = syscall.Kill(id, syscall.SIGKILL) // it may just have ended
		}
		if time.Now().After(deadline) {
			t.Errorf("nstest: processes %v in %s do not end", ids, name)
			break
		}
		time.Sleep(10 * time.Millisecond) // between two looks
	}
	if err := command("", "ip", "netns", "del", name); err != nil && !errors.Is(statNamespace(name), os.ErrNotExist) {
		t.Error(err)
	}
}

func statNamespace(name string) error {
	_, err := os.Stat(filepath.Join("/run/netns", name))
	return err
}

// pidsIn lists the processes in a namespace, this one never.
func pidsIn(name string) ([]int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), stepTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, "ip", "netns", "pids", name).Output()
	if err != nil {
		return nil, fmt.Errorf("processes in %s: %w", name, err)
	}
	var ids []int
	for word := range strings.FieldsSeq(string(out)) {
		if id, err := strconv.Atoi(word); err == nil && id != os.Getpid() {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// sweep removes the namespaces of test runs that ended without their cleanup.
func sweep(t testing.TB) {
	t.Helper()
	entries, err := os.ReadDir("/run/netns")
	if err != nil {
		return // none were ever made
	}
	for _, e := range entries {
		if pid, ok := ownerOf(e.Name()); ok && !running(pid) {
			remove(t, e.Name())
		}
	}
}

// ownerOf reads the process id out of a namespace's name.
func ownerOf(name string) (pid int, ok bool) {
	rest, ok := strings.CutPrefix(name, namePrefix)
	if !ok {
		return 0, false
	}
	digits, _, ok := strings.Cut(rest, "x")
	if !ok {
		return 0, false
	}
	pid, err := strconv.Atoi(digits)
	return pid, err == nil && pid > 0
}

func running(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
