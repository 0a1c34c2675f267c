package nstest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Spoof sends one UDP datagram with a source of the caller's choice out of the
// host, as any program with raw sockets could.
func (h *Host) Spoof(src, dst netip.AddrPort, payload []byte) error {
	packet := udpPacket(src, dst, payload)
	return h.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		if err != nil {
			return fmt.Errorf("raw socket: %w", err)
		}
		defer unix.Close(fd) //nolint:errcheck // nothing is buffered
		if err := unix.Sendto(fd, packet, 0, &unix.SockaddrInet4{Addr: dst.Addr().As4()}); err != nil {
			return fmt.Errorf("send as %s to %s: %w", src, dst, err)
		}
		return nil
	})
}

// udpPacket is an IPv4 packet; the kernel fills in the header's checksum, and
// UDP over IPv4 needs none.
func udpPacket(src, dst netip.AddrPort, payload []byte) []byte {
	p := make([]byte, 28, 28+len(payload))
	p[0] = 0x45
	binary.BigEndian.PutUint16(p[2:], uint16(28+len(payload)))
	p[8], p[9] = 64, unix.IPPROTO_UDP
	copy(p[12:], src.Addr().AsSlice())
	copy(p[16:], dst.Addr().AsSlice())
	binary.BigEndian.PutUint16(p[20:], src.Port())
	binary.BigEndian.PutUint16(p[22:], dst.Port())
	binary.BigEndian.PutUint16(p[24:], uint16(8+len(payload)))
	return append(p, payload...)
}

// Capture collects every packet that a link sees.
type Capture struct {
	stop chan struct{}
	done chan struct{}

	mu      sync.Mutex
	packets [][]byte
	lost    int
	err     error
}

// Capture records all frames that cross the bridge, until Stop or the end of
// the test.
func (n *Network) Capture() *Capture { return capture(n.t, n.bridge, "br0") }

// Capture records all packets of one link of the host: frames on eth0, IP
// packets on a WireGuard device.
func (h *Host) Capture(link string) *Capture { return capture(h.n.t, h.ns, link) }

// captureBuffer is what the kernel may keep for a capture that falls behind.
const captureBuffer = 32 << 20

func capture(t testing.TB, ns, link string) *Capture {
	t.Helper()
	c := &Capture{stop: make(chan struct{}), done: make(chan struct{})}
	var fd int
	if err := inNamespace(ns, 0, func() (err error) {
		fd, err = openCapture(link)
		return err
	}); err != nil {
		t.Fatalf("capture %s in %s: %v", link, ns, err)
	}
	go c.read(fd)
	t.Cleanup(func() { c.end() })
	return c
}

func openCapture(link string) (int, error) {
	all := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_ALL))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(all))
	if err != nil {
		return 0, err
	}
	index, err := linkIndex(fd, link)
	if err == nil {
		err = errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, captureBuffer),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}),
			unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP,
				&unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_PROMISC}),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: index}),
		)
	}
	if err != nil {
		return 0, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

func linkIndex(fd int, link string) (int, error) {
	req, err := unix.NewIfreq(link)
	if err != nil {
		return 0, err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, req); err != nil {
		return 0, fmt.Errorf("link %s: %w", link, err)
	}
	return int(req.Uint32()), nil
}

// read copies packets until stop, and then what the kernel still has.
func (c *Capture) read(fd int) {
	defer close(c.done)
	defer unix.Close(fd) //nolint:errcheck // only read from
	buf := make([]byte, 1<<16)
	stopping := false
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		switch {
		case err == nil:
			c.mu.Lock()
			c.packets = append(c.packets, append([]byte(nil), buf[:n]...))
			c.mu.Unlock()
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			if stopping {
				c.finish(fd, nil)
				return
			}
		case errors.Is(err, syscall.ENETDOWN): // the link went down or away
		default:
			c.finish(fd, err)
			return
		}
		select {
		case <-c.stop:
			stopping = true
		default:
		}
	}
}

func (c *Capture) finish(fd int, err error) {
	stats, statErr := unix.GetsockoptTpacketStats(fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = errors.Join(err, statErr)
	if statErr == nil {
		c.lost = int(stats.Drops)
	}
}

func (c *Capture) end() {
	select {
	case <-c.stop:
	default:
		close(c.stop)
	}
	<-c.done
}

// Packets returns a copy of the list of what was seen so far.
func (c *Capture) Packets() [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([][]byte(nil), c.packets...)
}

// Stop ends the capture and returns all packets. A capture that lost any is an
// error: it proves nothing.
func (c *Capture) Stop() ([][]byte, error) {
	c.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost > 0 {
		return c.packets, errors.Join(c.err, fmt.Errorf("capture lost %d packets", c.lost))
	}
	return c.packets, c.err
}
