package nstest

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Host is a network namespace with one link to the bridge.
type Host struct {
	n       *Network
	name    string
	ns      string
	bridge  string // namespace of its bridge
	port    string // its link there
	dir     string
	sockets string // lies on /run/wireguard
	addr    netip.Addr
}

// setAddr gives a new host its address and awaits its link.
func (h *Host) setAddr(a netip.Addr) {
	h.n.t.Helper()
	h.addr = a
	h.n.step("ip", "-n", h.ns, "addr", "add", a.String()+"/24", "dev", "eth0")
	h.n.step("ip", "-n", h.ns, "link", "set", "eth0", "up")
	h.awaitLink()
}

// Name is what the host was added as.
func (h *Host) Name() string { return h.name }

// Addr is the host's underlay address.
func (h *Host) Addr() netip.Addr { return h.addr }

// Dir is a directory of this host alone, removed with the test.
func (h *Host) Dir() string { return h.dir }

// inside is the script that every program of a host starts through: it gives
// the mount namespace, which ip made for this one program, the host's own
// directory of WireGuard sockets.
const inside = `mkdir -p /run/wireguard && mount --bind "$0" /run/wireguard && exec "$@"`

// Command prepares a program that will run in the host; the process started is
// the program itself, so a signal reaches it. What the caller does not end
// itself ends with the test. No parent-death signal: threads that Do used end,
// and would take with them what they once started.
func (h *Host) Command(ctx context.Context, argv ...string) *exec.Cmd {
	args := append([]string{"netns", "exec", h.ns, "sh", "-c", inside, h.sockets}, argv...)
	cmd := exec.CommandContext(ctx, "ip", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// Exec runs a program in the host, which must succeed, and returns its output.
func (h *Host) Exec(argv ...string) string {
	h.n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stepTime)
	defer cancel()
	out, err := h.Command(ctx, argv...).CombinedOutput()
	if err != nil {
		h.n.t.Fatalf("%s: %s: %v: %s", h.name, strings.Join(argv, " "), err, out)
	}
	return string(out)
}

// Sysctl sets a kernel parameter of the host's namespace, as in
// Sysctl("net.ipv4.conf.all.rp_filter", "2").
func (h *Host) Sysctl(key, value string) {
	h.n.t.Helper()
	path := "/proc/sys/" + strings.ReplaceAll(key, ".", "/")
	if err := h.Do(func() error { return os.WriteFile(path, []byte(value), 0o600) }); err != nil {
		h.n.t.Fatalf("%s: set %s: %v", h.name, key, err)
	}
}

// Cut takes the host off the bridge; what it sends and gets is lost.
func (h *Host) Cut() {
	h.n.t.Helper()
	h.n.step("ip", "-n", h.bridge, "link", "set", h.port, "down")
}

// Heal undoes Cut.
func (h *Host) Heal() {
	h.n.t.Helper()
	h.n.step("ip", "-n", h.bridge, "link", "set", h.port, "up")
	h.awaitLink()
}

// awaitLink waits until the bridge forwards for the host, which it does a
// moment after the link went up.
func (h *Host) awaitLink() {
	h.n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stepTime)
	defer cancel()
	for {
		out, err := exec.CommandContext(ctx, "ip", "-n", h.bridge, "-o", "link", "show", h.port).CombinedOutput()
		if err != nil {
			h.n.t.Fatalf("link of %s: %v: %s", h.name, err, out)
		}
		if strings.Contains(string(out), " state UP ") {
			return
		}
		time.Sleep(5 * time.Millisecond) // between two looks
	}
}

// ChangeAddress replaces the host's underlay address, as a new lease of its
// provider would: the old one is gone at once.
func (h *Host) ChangeAddress(to netip.Addr) {
	h.n.t.Helper()
	h.n.step("ip", "-n", h.ns, "addr", "del", h.addr.String()+"/24", "dev", "eth0")
	h.n.step("ip", "-n", h.ns, "addr", "add", to.String()+"/24", "dev", "eth0")
	h.addr = to
}

// Shape is what the bridge does to IPv4 packets that a host sends.
type Shape struct {
	// Loss is the percentage that is dropped.
	Loss int
	// Longest is the largest packet that passes; longer ones vanish without a
	// word to their sender, as in an MTU black hole. 0: all pass.
	Longest int
	// Apart lists the hosts to which nothing passes.
	Apart []netip.Addr
}

// Shape replaces what the bridge does to the host's packets; the zero Shape
// lets all pass.
func (h *Host) Shape(s Shape) {
	h.n.t.Helper()
	rules, segments := "", "65535"
	if s.Longest > 0 {
		rules += fmt.Sprintf("ip length > %d drop\n", s.Longest)
	}
	switch {
	case s.Loss >= 100: // the filter knows no number below 100 that always is
		rules += "meta protocol ip drop\n"
	case s.Loss > 0:
		rules += fmt.Sprintf("meta protocol ip numgen random mod 100 < %d drop\n", s.Loss)
	}
	for _, a := range s.Apart {
		rules += fmt.Sprintf("ip daddr %s drop\n", a)
	}
	if rules != "" {
		// Programs hand the kernel several packets as one, and a link without
		// hardware passes them on like that: each must meet the rules alone.
		segments = "1"
	}
	h.n.step("ip", "-n", h.ns, "link", "set", "eth0", "gso_max_segs", segments)
	script := fmt.Sprintf("table netdev %[1]s {}\ndelete table netdev %[1]s\n", h.port)
	if rules != "" {
		script += fmt.Sprintf("table netdev %[1]s {\nchain in {\ntype filter hook ingress device %[1]q priority 0;\n%[2]s}\n}\n", h.port, rules)
	}
	if err := command(script, "ip", "netns", "exec", h.bridge, "nft", "-f", "-"); err != nil {
		h.n.t.Fatal(err)
	}
}

// Do runs f in the host's network namespace. Sockets that f opens stay there
// after it returned. f must not start goroutines that expect the same.
func (h *Host) Do(f func() error) error { return inNamespace(h.ns, 0, f) }

// DoAs is Do as another user of the host: one without any right.
func (h *Host) DoAs(uid int, f func() error) error { return inNamespace(h.ns, uid, f) }

// inNamespace runs f on a thread of its own that ends with it: a thread that
// changed its namespace or user must never run anything else.
func inNamespace(ns string, uid int, f func() error) error {
	done := make(chan error, 1) // one answer
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends here
		done <- func() error {
			fd, err := unix.Open(filepath.Join("/run/netns", ns), unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return fmt.Errorf("open namespace %s: %w", ns, err)
			}
			defer unix.Close(fd) //nolint:errcheck // nothing was written
			if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("enter namespace %s: %w", ns, err)
			}
			if uid != 0 {
				// The system call, unlike package syscall, changes this thread only.
				id := uintptr(uid)
				if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, id, id, id); errno != 0 {
					return fmt.Errorf("become user %d: %w", uid, errno)
				}
			}
			return f()
		}()
	}()
	return <-done
}

// Dial opens a connection from the host to a literal address.
func (h *Host) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var conn net.Conn
	err := h.Do(func() (err error) {
		var d net.Dialer
		conn, err = d.DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// Listen opens a TCP listener in the host at a literal address.
func (h *Host) Listen(ctx context.Context, address string) (net.Listener, error) {
	var ln net.Listener
	err := h.Do(func() (err error) {
		var lc net.ListenConfig
		ln, err = lc.Listen(ctx, "tcp", address)
		return err
	})
	return ln, err
}

// ListenPacket opens a UDP socket in the host at a literal address.
func (h *Host) ListenPacket(ctx context.Context, address string) (net.PacketConn, error) {
	var pc net.PacketConn
	err := h.Do(func() (err error) {
		var lc net.ListenConfig
		pc, err = lc.ListenPacket(ctx, "udp", address)
		return err
	})
	return pc, err
}

// HasLink reports whether the host has a link of that name.
func (h *Host) HasLink(name string) bool {
	return h.Do(func() error {
		_, err := net.InterfaceByName(name)
		return err
	}) == nil
}
