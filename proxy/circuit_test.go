package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// circuit is the line with which tor begins a connection of a circuit.
func circuit(n int) string {
	return fmt.Sprintf("PROXY TCP6 fc00:dead:beef:4dad::%x:%x ::1 65535 80\r\n", n>>16, n&0xffff)
}

// ended waits for the end of a connection that is not answered.
func ended(t *testing.T, c net.Conn) {
	t.Helper()
	answer, err := io.ReadAll(c)
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() || len(answer) > 0 {
		t.Fatalf("answered with %q, %v", answer, err)
	}
}

// finish says that no more is sent.
func finish(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.(*net.UnixConn).CloseWrite(); err != nil { //nolint:errcheck,forcetypeassert // dial returns this type
		t.Fatal(err)
	}
}

// TestOneCircuitLeavesRoom: one client opens as many connections as it can, with
// bodies that do not come. Another one is served all the same, and the first one
// again when it gives something back.
func TestOneCircuitLeavesRoom(t *testing.T) {
	there := make(chan struct{}, 100)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		there <- struct{}{}
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, r.URL.Path)
	}))
	defer target.Close()
	var cut atomic.Int32
	path := run(t, Options{
		Targets: []string{address(target)}, Connections: 8, PerCircuit: 6,
		OnCut: func(why string) {
			if why == CutCircuit {
				cut.Add(1)
			}
		},
	})
	const greedy, other = 0x12345, 7
	var held []net.Conn
	for range 6 {
		c := dial(t, path)
		if _, err := io.WriteString(c, circuit(greedy)+"POST / HTTP/1.1\r\nHost: "+public+"\r\nContent-Length: 100000\r\n\r\nx"); err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	for range held {
		<-there
	}
	for range 20 {
		c := dial(t, path)
		_, _ = io.WriteString(c, circuit(greedy)+get("/greedy")) // it may be closed already
		ended(t, c)
	}
	if resp, body := raw(t, path, circuit(other)+get("/other")); resp.StatusCode != 200 || body != "/other" {
		t.Errorf("another client: %s %q", resp.Status, body)
	}
	if n := cut.Load(); n != 20 {
		t.Errorf("%d connections counted as cut off", n)
	}
	for _, c := range held {
		c.Close()
	}
	for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		c := dial(t, path)
		_, _ = io.WriteString(c, circuit(greedy)+get("/again"))
		if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
			resp.Body.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatal("the client has no place again")
		}
	}
}

// TestCircuitLine: the line may come in any pieces, and never reaches the
// target; what does not begin with it gets nothing.
func TestCircuitLine(t *testing.T) {
	http := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) }))
	defer http.Close()
	paths := map[string]string{
		ModeHTTP: run(t, Options{Targets: []string{address(http)}, PerCircuit: 2}),
		ModeTCP:  run(t, Options{Mode: ModeTCP, Targets: []string{echo(t)}, PerCircuit: 2}),
	}
	number := 0
	for mode, path := range paths {
		for size := 1; size < 80; size += 13 {
			c := dial(t, path)
			number++ // the one before may not have given back its place yet
			text := circuit(number) + get("/x")
			for len(text) > 0 {
				n := min(size, len(text))
				if _, err := io.WriteString(c, text[:n]); err != nil {
					t.Fatal(err)
				}
				text = text[n:]
			}
			if mode == ModeTCP {
				finish(t, c)
			}
			line, err := bufio.NewReader(c).ReadString('\n')
			if want := map[string]string{ModeHTTP: "HTTP/1.1 200 OK\r\n", ModeTCP: "GET /x HTTP/1.1\r\n"}[mode]; line != want {
				t.Errorf("mode %s, pieces of %d bytes: %q, %v", mode, size, line, err)
			}
			c.Close()
		}
		for _, begin := range []string{
			get("/x"), "PROXY\r\n", "PROXY TCP4 1.2.3.4 ::1 1 2\r\n", "PROXY TCP6 x ::1 1 2\r\n", "PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
			"\r\n", strings.Repeat("x", 200), strings.Repeat("x", 200) + "\r\n",
		} {
			c := dial(t, path)
			_, _ = io.WriteString(c, begin)    // it may be closed already
			_ = c.(*net.UnixConn).CloseWrite() //nolint:errcheck,forcetypeassert // likewise; dial returns this type
			if answer, _ := io.ReadAll(c); strings.Contains(string(answer), "200 OK") || mode == ModeTCP && len(answer) > 0 {
				t.Errorf("mode %s, %.40q is answered: %q", mode, begin, answer)
			}
			c.Close()
		}
	}
	// Closed without a word it holds no place.
	for range 5 {
		dial(t, paths[ModeTCP]).Close()
	}
	c := dial(t, paths[ModeTCP])
	if _, err := io.WriteString(c, circuit(0x10001)+"hello\n"); err != nil {
		t.Fatal(err)
	}
	finish(t, c)
	if line, err := bufio.NewReader(c).ReadString('\n'); line != "hello\n" {
		t.Errorf("%q, %v", line, err)
	}
}

func FuzzCircuit(f *testing.F) {
	f.Add("PROXY TCP6 fc00:dead:beef:4dad::1:2 ::1 65535 80")
	f.Add("PROXY TCP6 fe80::1%eth0 ::1 1 2")
	f.Fuzz(func(t *testing.T, line string) {
		if id, ok := parseCircuit(line); ok != id.IsValid() {
			t.Errorf("%q: %v %t", line, id, ok)
		}
	})
}
