package mesh

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// namespaceEnv names the test that runs in a network namespace of its own.
const namespaceEnv = "SKEIN_MESH_NAMESPACE"

// inNamespace runs the calling test again, in a child process with its own
// network and mount namespaces, and reports whether this is the child. The
// parent returns when the child is done.
func inNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(namespaceEnv) == t.Name() {
		prepareNamespace(t)
		return true
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v", "-test.timeout=1h"}
	for _, arg := range os.Args {
		if strings.HasPrefix(arg, "-test.short") {
			args = append(args, arg)
		}
	}
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Env = append(os.Environ(), namespaceEnv+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
	}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("in a network namespace: %v", err)
	}
	return false
}

// prepareNamespace brings loopback up and gives the process its own directory
// of control sockets.
func prepareNamespace(t *testing.T) {
	t.Helper()
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(wgDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", wgDir, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
}

// without calls f on a thread that lacks a capability.
func without(t *testing.T, capability uint, f func()) {
	t.Helper()
	onThread(t, func() error {
		head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err := unix.Capget(&head, &data[0]); err != nil {
			return err
		}
		data[capability/32].Effective &^= 1 << (capability % 32)
		if err := unix.Capset(&head, &data[0]); err != nil {
			return err
		}
		f()
		return nil
	})
}

// descriptors is the number of open file descriptors.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// leaveSocket makes a socket on which nobody listens, as a killed process
// leaves it.
func leaveSocket(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// namespace is another network namespace of the same process.
type namespace struct{ fd int }

// newNamespace makes a namespace that a pair of links, near and far, connects
// with the present one; each end has one of the addresses.
func newNamespace(t *testing.T, near, far string, addrs [2]netip.Prefix) *namespace {
	t.Helper()
	n := &namespace{fd: -1}
	onThread(t, func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		n.fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return err
	})
	t.Cleanup(func() { _ = unix.Close(n.fd) })
	attrs := netlink.NewLinkAttrs()
	attrs.Name = near
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: far, PeerNamespace: netlink.NsFd(n.fd)}); err != nil {
		t.Fatal(err)
	}
	addressed := func(name string, p netip.Prefix) error {
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer h.Close()
		link, err := h.LinkByName(name)
		if err != nil {
			return err
		}
		return errors.Join(h.LinkSetUp(link), h.AddrAdd(link, &netlink.Addr{IPNet: ipNet(p)}))
	}
	if err := addressed(near, addrs[0]); err != nil {
		t.Fatal(err)
	}
	n.do(t, func() error { return addressed(far, addrs[1]) })
	return n
}

// do calls f in the namespace: sockets and handles that it opens stay there.
func (n *namespace) do(t *testing.T, f func() error) {
	t.Helper()
	onThread(t, func() error {
		if err := unix.Setns(n.fd, unix.CLONE_NEWNET); err != nil {
			return err
		}
		return f()
	})
}

// onThread calls f on a thread of its own, which ends with it.
func onThread(t *testing.T, f func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// wgDir is where wg(8) looks for devices outside the kernel.
const wgDir = "/var/run/wireguard"
