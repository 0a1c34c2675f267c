package balance

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// answering is a server that says its name and from where it is asked.
func answering(t *testing.T, name string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
			_, _ = io.WriteString(c, name+" "+host)
			_ = c.Close()
		}
	}()
	return l
}

// TestBalancer: connections go to the servers in turn, or to the one that is named, past one that does not answer, and
// come from the address that the client has; a connection that is open ends with the balancer.
func TestBalancer(t *testing.T) {
	one, two := answering(t, "one"), answering(t, "two")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	b, err := Open(ctx, "127.0.0.1:0", one.Addr().String(), two.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	dial := func() net.Conn {
		t.Helper()
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, 0, 8)}}
		c, err := from.DialContext(ctx, "tcp4", b.Addr())
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		return c
	}
	ask := func() string {
		t.Helper()
		c := dial()
		defer c.Close()
		text, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if first, second := ask(), ask(); first != "one 127.1.0.8" || second != "two 127.1.0.8" {
		t.Errorf("%q, then %q", first, second)
	}
	b.Only(two.Addr().String())
	for range 3 {
		if got := ask(); got != "two 127.1.0.8" {
			t.Errorf("when all is two's: %q", got)
		}
	}
	b.Only("")
	b.Over([]string{one.Addr().String()})
	if got := ask(); got != "one 127.1.0.8" {
		t.Errorf("over one alone: %q", got)
	}
	b.Over([]string{one.Addr().String(), two.Addr().String()})
	_ = one.Close()
	for range 3 {
		if got := ask(); got != "two 127.1.0.8" {
			t.Errorf("while one is away: %q", got)
		}
	}
	_ = two.Close()
	silent, err := net.Listen("tcp4", two.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	open := dial()
	defer open.Close()
	for b.Has(two.Addr().String()) == 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	b.Close()
	if _, err := io.ReadAll(open); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it stays open: %v", err)
	}
	if n := b.Has(two.Addr().String()); n != 0 {
		t.Errorf("%d connections are counted after the end", n)
	}
}
