package hostnet

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	wg "golang.zx2c4.com/wireguard/device"

	"github.com/skein-project/skein/mesh/device"
)

const (
	// controlDir is where wg(8) looks for devices outside the kernel.
	controlDir = "/var/run/wireguard"
	// maxControl bounds the programs that talk to a device at a time.
	maxControl = 8
	// controlTimeout bounds the look at a socket that somebody has left.
	controlTimeout = time.Second
)

// controlSocket lets wg(8) show the device. It listens by itself rather than
// through package ipc, whose UAPIOpen changes the umask of the process for a
// moment and whose listener leaves a goroutine behind.
//
// Goroutines: one accepts and one serves each connection; all end with close.
type controlSocket struct {
	listener net.Listener
	served   sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{} // nil once closed
}

func controlPath(iface string) string { return filepath.Join(controlDir, iface+".sock") }

// serveControl opens the socket of a device, in place of one that a killed
// process has left.
func serveControl(iface string, dev *wg.Device) (*controlSocket, error) {
	if err := os.MkdirAll(controlDir, 0o755); err != nil {
		return nil, err
	}
	path := controlPath(iface)
	l, err := net.Listen("unix", path)
	if errors.Is(err, unix.EADDRINUSE) {
		if _, err := removeStale(path); err != nil {
			return nil, err
		}
		l, err = net.Listen("unix", path)
	}
	if err != nil {
		return nil, err
	}
	// Until here the umask has kept it from being writable by others, and
	// only who can write can connect.
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	s := &controlSocket{listener: l, conns: map[net.Conn]struct{}{}}
	s.served.Go(func() { s.accept(dev) })
	return s, nil
}

// removeStale removes a socket on which nobody listens.
func removeStale(path string) (removed bool, err error) {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if info.Mode()&os.ModeSocket == 0 {
		return false, fmt.Errorf("%w: %s is no socket", device.ErrForeign, path)
	}
	c, err := net.DialTimeout("unix", path, controlTimeout)
	if err == nil {
		c.Close()
		return false, fmt.Errorf("%w: a process listens on %s", device.ErrForeign, path)
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return false, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	return true, nil
}

func (s *controlSocket) accept(dev *wg.Device) {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		if !s.add(c) {
			c.Close()
			continue
		}
		s.served.Go(func() {
			dev.IpcHandle(c) // closes c
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
		})
	}
}

func (s *controlSocket) add(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil || len(s.conns) >= maxControl {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

// Close removes the socket and ends all conversations.
func (s *controlSocket) Close() error {
	if s == nil {
		return nil
	}
	err := s.listener.Close()
	s.mu.Lock()
	conns := s.conns
	s.conns = nil
	s.mu.Unlock()
	for c := range conns {
		c.Close()
	}
	s.served.Wait()
	return err
}
