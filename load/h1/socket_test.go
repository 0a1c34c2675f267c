package h1

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skein-project/skein/load"
)

// TestSocket: over a connection of the kernel requests of any size are sent whole, each has
// its own deadline, whichever the connection has from those before, and one that is closed
// meanwhile ends what waits for it.
func TestSocket(t *testing.T) {
	var closing atomic.Int32
	for name, wrap := range map[string]func(net.Conn) net.Conn{
		"plain": func(c net.Conn) net.Conn { return c },
		"told of its end": func(c net.Conn) net.Conn {
			return Closing(c, func() { closing.Add(1) })
		},
		"no socket": func(c net.Conn) net.Conn { return struct{ net.Conn }{c} },
		"TLS": func(c net.Conn) net.Conn {
			return tls.Client(Beneath(Closing(c, func() { closing.Add(1) })), insecure(tls.VersionTLS13))
		},
		"TLS 1.2": func(c net.Conn) net.Conn { return tls.Client(Beneath(c), insecure(tls.VersionTLS12)) },
		"TLS on no socket": func(c net.Conn) net.Conn {
			return tls.Client(Beneath(struct{ net.Conn }{c}), insecure(tls.VersionTLS13))
		},
	} {
		t.Run(name, func(t *testing.T) {
			held := make(chan struct{})
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/slow":
					ms, _ := strconv.Atoi(r.URL.RawQuery)
					time.Sleep(time.Duration(ms) * time.Millisecond)
				case "/never":
					<-held
				case "/refuse":
					w.WriteHeader(http.StatusRequestEntityTooLarge)
					return
				}
				n, _ := io.Copy(io.Discard, r.Body)
				fmt.Fprint(w, n)
			}))
			secure := strings.HasPrefix(name, "TLS")
			if server.Config.ErrorLog = log.New(io.Discard, "", 0); secure {
				server.StartTLS()
			} else {
				server.Start()
			}
			defer server.Close()
			defer close(held)
			dial := func() *Conn {
				c, err := net.Dial("tcp", server.Listener.Addr().String()) //nolint:noctx // at once
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Close() }) // some are closed before
				c = wrap(c)
				if encrypted, is := c.(*tls.Conn); is {
					if err := encrypted.Handshake(); err != nil { //nolint:noctx // at once
						t.Fatal(err)
					}
				}
				return NewConn(c)
			}
			c := dial()
			if kernel := !strings.HasSuffix(name, "no socket"); (c.socket != nil) != (kernel && !secure) || (c.under != nil) != (kernel && secure) {
				t.Fatal("it is taken for something else")
			}
			ask := func(c *Conn, path string, size int, most time.Duration) (string, error) {
				req := &Request{
					Bytes:    append(fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", path, size), bytes.Repeat([]byte("x"), size)...),
					KeepBody: true, Deadline: time.Now().Add(most),
				}
				var r Response
				at, err := c.Do(req, &r)
				if err == nil && (at.Send <= 0 || at.FirstByte <= 0 || at.Receive < 0 || at.End.IsZero()) {
					t.Errorf("%s: times %+v", path, at)
				}
				return fmt.Sprint(r.Status, " ", string(r.Body)), err
			}
			for _, size := range []int{0, 1, 100, 8 << 20, 5} {
				if got, err := ask(c, "/", size, time.Minute); err != nil || got != fmt.Sprint("200 ", size) {
					t.Errorf("%d bytes: %s, %v", size, got, err)
				}
			}
			if got, err := ask(c, "/", 2, 5*time.Second); err != nil || got != "200 2" {
				t.Errorf("%s, %v", got, err)
			}
			if secure && c.under == nil {
				return // one of TLS does not bear a deadline that passed
			}
			// What the connection has is earlier than what this may take.
			c.set = time.Now().Add(50 * time.Millisecond)
			if err := c.SetDeadline(c.set); err != nil {
				t.Fatal(err)
			}
			if got, err := ask(c, "/slow?300", 3, time.Minute); err != nil || got != "200 3" {
				t.Errorf("longer than the deadline before: %s, %v", got, err)
			}
			c.set = time.Now().Add(time.Millisecond)
			if err := c.SetDeadline(c.set); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Millisecond)
			if got, err := ask(c, "/", 8<<20, time.Minute); err != nil || got != "200 8388608" {
				t.Errorf("behind the deadline before: %s, %v", got, err)
			}
			begin := time.Now()
			if _, err := ask(c, "/never", 1, 100*time.Millisecond); ClassOf(err) != load.Timeout || time.Since(begin) < 90*time.Millisecond {
				t.Errorf("shorter than the deadline before: %v after %s", err, time.Since(begin))
			}
			c = dial()
			time.AfterFunc(50*time.Millisecond, func() { _ = c.Close() }) // the end of Do tells
			if _, err := ask(c, "/never", 1, time.Minute); ClassOf(err) != load.Interrupted {
				t.Errorf("closed meanwhile: %v", err)
			}
			if got, err := ask(dial(), "/refuse", 1<<20, time.Minute); err != nil && ClassOf(err) != load.Reset || err == nil && got != "413 " {
				t.Errorf("refused before all was read: %s, %v", got, err)
			}
		})
	}
	if closing.Load() == 0 {
		t.Error("a connection does not tell of its end")
	}
}

func insecure(version uint16) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version} //nolint:gosec // a target of a test
}

// TestEndOfTLS: a target hears that a connection was closed, rather than cut, also when it
// was somebody else who closed it while a request waited for its answer.
func TestEndOfTLS(t *testing.T) {
	server := httptest.NewTLSServer(nil) // for its certificate
	defer server.Close()
	l, err := tls.Listen("tcp", "127.0.0.1:0", server.TLS)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, meanwhile := range []bool{false, true} {
		heard := make(chan error, 1)
		asked := make(chan struct{})
		go func() {
			c, err := l.Accept()
			if err == nil {
				defer c.Close()
				b := make([]byte, 1<<10)
				if _, err = c.Read(b); err == nil {
					close(asked)
					if !meanwhile {
						_, err = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
					}
				}
				if err == nil {
					_, err = c.Read(b)
				}
			}
			heard <- err
		}()
		raw, err := net.Dial("tcp", l.Addr().String()) //nolint:noctx // at once
		if err != nil {
			t.Fatal(err)
		}
		secure := tls.Client(Beneath(raw), insecure(tls.VersionTLS13))
		if err := secure.Handshake(); err != nil { //nolint:noctx // at once
			t.Fatal(err)
		}
		c := NewConn(secure)
		if meanwhile {
			go func() { <-asked; _ = c.Close() }() // Do ends with it
		}
		var r Response
		_, err = c.Do(&Request{Bytes: []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), Deadline: time.Now().Add(time.Minute)}, &r)
		if meanwhile != (err != nil) || meanwhile && ClassOf(err) != load.Interrupted {
			t.Errorf("closed meanwhile %v: %v", meanwhile, err)
		}
		_ = c.Close()
		if err := <-heard; err != io.EOF { //nolint:errorlint // crypto/tls has another one for a cut
			t.Errorf("closed meanwhile %v: the target heard %v", meanwhile, err)
		}
	}
}

// TestSocketAllocatesNothing: nor does a request over a connection of the kernel.
func TestSocketAllocatesNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // ends with the connection
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		b := make([]byte, 1<<10)
		answer := []byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		for {
			if _, err := c.Read(b); err != nil {
				return
			}
			if _, err := c.Write(answer); err != nil {
				return
			}
		}
	}()
	raw, err := net.Dial("tcp", l.Addr().String()) //nolint:noctx // at once
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	c := NewConn(raw)
	req := &Request{Bytes: []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), KeepBody: true}
	var r Response
	if n := testing.AllocsPerRun(500, func() {
		req.Deadline = time.Now().Add(time.Minute)
		if _, err := c.Do(req, &r); err != nil || r.Status != 200 || string(r.Body) != "ok" {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%g allocations a request", n)
	}
}

// BenchmarkSocket is a request and its answer over the loopback.
func BenchmarkSocket(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
	defer server.Close()
	raw, err := net.Dial("tcp", server.Listener.Addr().String()) //nolint:noctx // at once
	if err != nil {
		b.Fatal(err)
	}
	defer raw.Close()
	c := NewConn(raw)
	req := &Request{Bytes: []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), KeepBody: true}
	var r Response
	b.ReportAllocs()
	for b.Loop() {
		req.Deadline = time.Now().Add(time.Minute)
		if _, err := c.Do(req, &r); err != nil {
			b.Fatal(err)
		}
	}
}
