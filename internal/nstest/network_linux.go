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
	dir, err := os.MkdirTemp("", "nst-") //nolint:usetesting // see above
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
	h := n.newHost(name, n.bridge, "br0")
	h.setAddr(netip.AddrFrom4([4]byte{192, 0, 2, byte(len(n.hosts))}))
	return h
}

// Hidden adds a host behind a router of its own that lets connections out
// under its own address, 192.0.2.N for the N-th host, and none in. The host's
// address is 192.168.N.2.
func (n *Network) Hidden(name string) *Host {
	n.t.Helper()
	i := byte(len(n.hosts) + 1)
	outside, inner := netip.AddrFrom4([4]byte{192, 0, 2, i}), netip.AddrFrom4([4]byte{192, 168, i, 1})
	router := n.prefix + name + "-nat"
	n.addNamespace(router)
	port := fmt.Sprintf("p%d", i)
	n.step("ip", "-n", n.bridge, "link", "add", port, "type", "veth", "peer", "name", "out", "netns", router)
	n.step("ip", "-n", n.bridge, "link", "set", port, "master", "br0", "up")
	n.step("ip", "-n", router, "addr", "add", outside.String()+"/24", "dev", "out")
	n.step("ip", "-n", router, "link", "set", "out", "up")
	n.step("ip", "-n", router, "link", "add", "br0", "type", "bridge", "forward_delay", "0", "stp_state", "0")
	n.step("ip", "-n", router, "link", "set", "br0", "up")
	n.step("ip", "-n", router, "addr", "add", inner.String()+"/24", "dev", "br0")
	h := n.newHost(name, router, "br0")
	h.setAddr(inner.Next())
	n.step("ip", "-n", h.ns, "route", "add", "default", "via", inner.String())
	if err := inNamespace(router, 0, func() error {
		return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600)
	}); err != nil {
		n.t.Fatalf("router of %s: %v", name, err)
	}
	if err := command(natRules, "ip", "netns", "exec", router, "nft", "-f", "-"); err != nil {
		n.t.Fatal(err)
	}
	return h
}

// natRules are those of a home router: out under its own address, in only what
// answers.
const natRules = `
table ip nat {
	chain out {
		type nat hook postrouting priority 100;
		oifname "out" masquerade
	}
}
table ip filter {
	chain through {
		type filter hook forward priority 0;
		iifname "out" ct state new drop
	}
	chain self {
		type filter hook input priority 0;
		iifname "out" ct state new drop
	}
}
`

// newHost makes a host with a link to a bridge, without an address.
func (n *Network) newHost(name, bridge, link string) *Host {
	n.t.Helper()
	i := len(n.hosts) + 1
	if i > 253 {
		n.t.Fatal("nstest: a network holds 253 hosts")
	}
	h := &Host{
		n: n, name: name, ns: n.prefix + name, bridge: bridge, port: fmt.Sprintf("p%d", i), dir: filepath.Join(n.dir, name),
	}
	h.sockets = filepath.Join(h.dir, "wireguard")
	if err := os.MkdirAll(h.sockets, 0o700); err != nil {
		n.t.Fatal(err)
	}
	n.addNamespace(h.ns)
	n.step("ip", "-n", bridge, "link", "add", h.port, "type", "veth", "peer", "name", "eth0", "netns", h.ns)
	n.step("ip", "-n", bridge, "link", "set", h.port, "master", link, "up")
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
