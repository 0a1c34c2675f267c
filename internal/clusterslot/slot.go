package clusterslot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Variable is the environment variable that sets how many clusters live at
// once.
const Variable = "SKEIN_TEST_CLUSTERS"

// Waited begins the line that says how long a test waited for its slot, which
// is no part of what it took: internal/testrun subtracts it.
const Waited = "waited for a cluster slot: "

// pause is the time between two looks for a free slot.
const pause = 150 * time.Millisecond

// Slot is the right to keep one cluster alive, and the ports that go with it.
type Slot struct {
	file      *os.File
	next, end int // ports not yet given
}

// Take waits for a slot and keeps it until the test ends. One call per test: a
// second one could wait for the first.
func Take(t testing.TB) *Slot {
	t.Helper()
	n, err := number()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	file, i, err := take(t.Context(), filepath.Join(os.TempDir(), fmt.Sprintf("skein-test-clusters-%d", os.Getuid())), n)
	if err != nil {
		t.Fatalf("take a cluster slot: %v", err)
	}
	t.Cleanup(func() { file.Close() })
	if waited := time.Since(began); waited > pause {
		t.Logf("%s%.2fs", Waited, waited.Seconds())
	}
	first := firstPort + i*ports
	return &Slot{file: file, next: first, end: first + ports}
}

// Ports of a slot. No other slot has them, and the kernel gives none of them to
// a socket that leaves the choice to it: what a look finds free is still free
// when a daemon binds it. All are below 32768, where Linux begins to choose.
const (
	firstPort = 20000
	ports     = 100
)

// Port returns a port of the slot that is free on 127.0.0.1 for UDP and TCP, and
// that it has not returned before.
func (s *Slot) Port() (int, error) {
	for ; s.next < s.end; s.next++ {
		udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: s.next})
		if err != nil {
			continue
		}
		tcp, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: s.next})
		_ = udp.Close() // only probed
		if err != nil {
			continue
		}
		_ = tcp.Close() // only probed
		s.next++
		return s.next - 1, nil
	}
	return 0, fmt.Errorf("all %d ports of the cluster slot are taken", ports)
}

// number is how many slots there are.
func number() (int, error) {
	text := os.Getenv(Variable)
	if text == "" {
		return min(2*runtime.NumCPU(), 100), nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 100 {
		return 0, fmt.Errorf("%s=%s: want a number from 1 to 100", Variable, text)
	}
	return n, nil
}

// take returns the file and the index of the first of n slots that is free.
// Closing the file gives the slot back.
func take(ctx context.Context, dir string, n int) (*os.File, int, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, 0, err
	}
	for {
		for i := range n {
			f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(i)), os.O_CREATE|os.O_RDWR, 0o644)
			if err != nil {
				return nil, 0, err
			}
			err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
			if err == nil {
				return f, i, nil
			}
			f.Close()
			if !errors.Is(err, syscall.EWOULDBLOCK) {
				return nil, 0, fmt.Errorf("lock %s: %w", f.Name(), err)
			}
		}
		select {
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		case <-time.After(pause):
		}
	}
}
