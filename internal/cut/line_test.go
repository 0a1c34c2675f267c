package cut

import (
	"io"
	"net"
	"testing"
	"time"
)

// TestLine: what is sent arrives; a line that is broken ends connections and takes none; one
// that stalls keeps them, and what was sent meanwhile arrives when it is mended.
func TestLine(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn); _ = conn.Close() }() // says everything again
		}
	}()
	line, err := NewLine(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer line.Close()
	dial := func() net.Conn {
		t.Helper()
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp4", line.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	say := func(c net.Conn, text string) {
		t.Helper()
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	hear := func(c net.Conn, want string) {
		t.Helper()
		buf := make([]byte, len(want))
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.ReadFull(c, buf); err != nil || string(buf) != want {
			t.Fatalf("%q, %v, want %q", buf, err, want)
		}
	}
	nothing := func(c net.Conn) {
		t.Helper()
		_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil || err.Error() == "EOF" {
			t.Fatalf("%d bytes, %v, want a connection that says nothing", n, err)
		}
	}
	one := dial()
	say(one, "a")
	hear(one, "a")
	for _, way := range []Way{ToServer, ToClient} {
		line.Stall(way)
		line.Stall(way)
		say(one, "bc")
		nothing(one)
		two := dial() // it can connect, but is not heard
		say(two, "d")
		nothing(two)
		line.Mend()
		hear(one, "bc")
		hear(two, "d")
	}
	line.Break()
	_ = one.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := one.Read(make([]byte, 1)); err == nil {
		t.Error("it goes on")
	}
	late := dial()
	_ = late.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := late.Read(make([]byte, 1)); err == nil {
		t.Error("a new one is let in")
	}
	line.Mend()
	three := dial()
	say(three, "e")
	hear(three, "e")
	line.Stall(ToServer, ToClient)
	say(three, "f")
	line.Break() // also what stalls
	_ = three.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := three.Read(make([]byte, 1)); err == nil {
		t.Error("it goes on")
	}
}
