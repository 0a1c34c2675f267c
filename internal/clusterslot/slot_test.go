package clusterslot

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

// TestTake lets n have a slot, and the next one when one of them gave it back.
func TestTake(t *testing.T) {
	dir := t.TempDir()
	a, first, err := take(t.Context(), dir, 2)
	if err != nil {
		t.Fatal(err)
	}
	b, second, err := take(t.Context(), dir, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*pause)
	defer cancel()
	if _, _, err := take(ctx, dir, 2); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a third slot of two: %v", err)
	}
	time.AfterFunc(pause, func() { a.Close() })
	c, third, err := take(t.Context(), dir, 2)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if first != 0 || second != 1 || third != 0 {
		t.Errorf("slots %d, %d, %d", first, second, third)
	}
}

// TestPorts gives each slot other ports, each once, and none that is taken.
func TestPorts(t *testing.T) {
	s := &Slot{next: 19000, end: 19003}
	a, err := s.Port()
	if err != nil {
		t.Skipf("skipped: the ports of this test are taken: %v", err)
	}
	taken, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: a + 1})
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	defer taken.Close()
	if b, err := s.Port(); err == nil && b <= a+1 {
		t.Errorf("port %d after %d, while %d is taken", b, a, a+1)
	}
	if c, err := s.Port(); err == nil {
		t.Errorf("port %d of no more", c)
	}
}

func TestNumber(t *testing.T) {
	for text, want := range map[string]int{"1": 1, "12": 12, "101": 0, "0": 0, "-1": 0, "many": 0} {
		t.Setenv(Variable, text)
		if n, err := number(); n != want || (err == nil) != (want > 0) {
			t.Errorf("%s: %d, %v", text, n, err)
		}
	}
	t.Setenv(Variable, "")
	if n, err := number(); err != nil || n < 2 {
		t.Errorf("by default %d, %v", n, err)
	}
}
