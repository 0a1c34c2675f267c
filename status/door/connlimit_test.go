package door

import (
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// TestConnLimit: who has too many connections gets none until one is closed, and
// hinders nobody else.
func TestConnLimit(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var refused atomic.Int32
	names := make(chan string, 1) // who comes next
	c := NewConnLimit(l, MaxTogether, func(net.Conn) string { return <-names }, func() { refused.Add(1) })
	taken := make(chan net.Conn, 1)
	go func() {
		defer close(taken)
		for {
			conn, err := c.Accept()
			if err != nil {
				return
			}
			taken <- conn
		}
	}()
	// connect returns the accepted side, nil if it was closed.
	connect := func(name string) net.Conn {
		t.Helper()
		names <- name
		conn, err := net.DialTimeout("tcp", l.Addr().String(), 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
			_, _ = conn.Read(make([]byte, 1)) // ends when it is refused
		}()
		select {
		case got := <-taken:
			t.Cleanup(func() { got.Close() })
			return got
		case <-ended:
			return nil
		}
	}
	var first net.Conn
	for i := range maxConnections {
		conn := connect("uid:7")
		if conn == nil {
			t.Fatalf("connection %d is refused", i)
		}
		if i == 0 {
			first = conn
		}
	}
	for range 2 {
		if connect("uid:7") != nil {
			t.Error("one too many is taken")
		}
	}
	if connect("uid:8") == nil || connect("") == nil {
		t.Error("another is refused")
	}
	first.Close()
	first.Close()
	if connect("uid:7") == nil {
		t.Error("refused though one was closed")
	}
	if connect("uid:7") != nil {
		t.Error("closing one twice made room for two")
	}
	if n := refused.Load(); n != 3 {
		t.Errorf("%d refusals are counted, want 3", n)
	}
	if connect("uid:8") == nil {
		t.Error("another is refused")
	}
	c.mu.Lock()
	c.all = MaxTogether
	c.mu.Unlock()
	if connect("uid:8") != nil {
		t.Error("taken though all are too many")
	}
	if connect("") == nil {
		t.Error("root is refused")
	}
	l.Close()
	for conn := range taken {
		conn.Close()
	}
}
