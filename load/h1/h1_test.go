package h1

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/load"
)

// script is a connection from which fixed bytes come, in pieces.
type script struct {
	net.Conn
	in    []byte
	piece func() int
	end   error
}

func (s *script) Read(p []byte) (int, error) {
	if len(s.in) == 0 {
		if s.end != nil {
			return 0, s.end
		}
		return 0, io.EOF
	}
	n := copy(p, s.in[:min(len(s.in), max(1, s.piece()))])
	s.in = s.in[n:]
	return n, nil
}
func (s *script) Write(p []byte) (int, error)      { return len(p), nil }
func (s *script) SetDeadline(time.Time) error      { return nil }
func whole() int                                   { return 1 << 20 }
func answer(text string, piece func() int) *script { return &script{in: []byte(text), piece: piece} }

func do(c *Conn, head, keep bool, out *Response) error {
	_, err := c.Do(&Request{Bytes: []byte("GET / HTTP/1.1\r\n\r\n"), Head: head, KeepBody: keep}, out)
	return err
}

func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		name, text, body string
		status           int
		reusable         bool
	}{
		{"length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", 200, true},
		{"no reason", "HTTP/1.1 404\r\ncontent-length: 0\r\n\r\n", "", 404, true},
		{"bare line feeds", "HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", "hi", 200, true},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nX: y\r\n\r\n", "abc0123456789", 200, true},
		{"until close", "HTTP/1.1 200 OK\r\n\r\nall of it", "all of it", 200, false},
		{"close", "HTTP/1.1 200 OK\r\nConnection: foo, Close\r\nContent-Length: 1\r\n\r\nx", "x", 200, false},
		{"1.0", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", "x", 200, false},
		{"1.0 that stays", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx", "x", 200, true},
		{"interim", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", "x", 200, true},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", "", 204, true},
		{"not modified with a length", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "", 304, true},
		{"the same length twice", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", "x", 200, true},
	} {
		for _, piece := range []func() int{whole, func() int { return 1 }} {
			var r Response
			err := do(NewConn(answer(c.text, piece)), false, true, &r)
			if err != nil || r.Status != c.status || string(r.Body) != c.body || r.Reusable != c.reusable || r.Size != int64(len(c.body)) {
				t.Errorf("%s: %d %q reusable %t, %v", c.name, r.Status, r.Body, r.Reusable, err)
			}
		}
	}
	var r Response
	if err := do(NewConn(answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A:  b \r\nEmpty:\r\n\r\n", whole)), true, true, &r); err != nil || r.Get("x-a") != "b" || r.Get("empty") != "" {
		t.Errorf("HEAD: %v %q", err, r.Get("x-a"))
	}
}

// What is hostile or broken has its class, and costs bounded memory.
func TestHostileAnswers(t *testing.T) {
	ok := "HTTP/1.1 200 OK\r\n"
	for _, c := range []struct {
		name, text string
		want       load.Class
	}{
		{"nothing", "", load.EOF},
		{"endless head", ok + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 1000), load.Protocol},
		{"head without line ends", strings.Repeat("x", 1<<20), load.Protocol},
		{"many fields", ok + strings.Repeat("X: y\r\n", 300) + "\r\n", load.Protocol},
		{"flood of interim answers", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 1000), load.Protocol},
		{"another protocol", "HTTP/1.1 101 Switching Protocols\r\n\r\n", load.Protocol},
		{"HTTP/2", "HTTP/2.0 200 OK\r\n\r\n", load.Protocol},
		{"SSH", "SSH-2.0-OpenSSH_9.2\r\n\r\n", load.Protocol},
		{"SMTP", "220 mail.example.org ESMTP\r\n", load.Protocol},
		{"bad status", "HTTP/1.1 2x0 OK\r\n\r\n", load.Protocol},
		{"folded field", ok + "X: a\r\n b\r\n\r\n", load.Protocol},
		{"space before the colon", ok + "X : a\r\n\r\n", load.Protocol},
		{"zero byte", ok + "X: a\x00b\r\n\r\n", load.Protocol},
		{"two lengths", ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", load.Protocol},
		{"negative length", ok + "Content-Length: -1\r\n\r\n", load.Protocol},
		{"length and chunks", ok + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", load.Protocol},
		{"unknown coding", ok + "Transfer-Encoding: gzip\r\n\r\n", load.Protocol},
		{"bad length of a chunk", ok + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", load.Protocol},
		{"huge length of a chunk", ok + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", load.Protocol},
		{"chunk longer than it says", ok + "Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n", load.Protocol},
		{"endless line of a chunk", ok + "Transfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("x", 1<<16), load.Protocol},
		{"endless trailer", ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n", 1000), load.Protocol},
		{"junk behind", ok + "Content-Length: 1\r\n\r\nabc", load.Protocol},
		{"end in the body", ok + "Content-Length: 10\r\n\r\nabc", load.EOF},
		{"end in the head", ok + "Content-", load.EOF},
		{"end in the first line", "HTT", load.EOF},
		{"end in a chunk", ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nab", load.EOF},
		{"10 GB", ok + "Content-Length: 10000000000\r\n\r\nabc", load.TooLarge},
		{"endless chunks", ok + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("10000\r\n"+strings.Repeat("x", 1<<16)+"\r\n", 300), load.TooLarge},
		{"endless body", ok + "\r\n" + strings.Repeat("x", MaxBody+1), load.TooLarge},
	} {
		var r Response
		conn := NewConn(answer(c.text, func() int { return 1 << 14 }))
		err := do(conn, false, true, &r)
		if err == nil || ClassOf(err) != c.want {
			t.Errorf("%s: %v, want class %s", c.name, err, c.want)
		}
		if len(conn.buf) > 2*MaxHead || cap(r.Body) > 2*MaxBody {
			t.Errorf("%s: %d bytes of buffer, %d of body", c.name, len(conn.buf), cap(r.Body))
		}
	}
	// A length that is only said reserves nothing; a body that nobody needs is counted.
	var r Response
	if err := do(NewConn(answer("HTTP/1.1 200 OK\r\nContent-Length: 16000000\r\n\r\nabc", whole)), false, true, &r); ClassOf(err) != load.EOF || cap(r.Body) > 1<<20 {
		t.Errorf("%v, %d bytes for 3", err, cap(r.Body))
	}
	big := "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", MaxBody+1)
	if err := do(NewConn(answer(big, whole)), false, false, &r); err != nil || r.Size != MaxBody+1 || len(r.Body) != 0 {
		t.Errorf("%v: %d bytes counted, %d kept", err, r.Size, len(r.Body))
	}
}

// A real server, several requests on one connection, and a steady one allocates nothing.
func TestSteadyRequestAllocatesNothing(t *testing.T) {
	s := &script{piece: whole}
	c := NewConn(s)
	text := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"ok\":\"yes!\"}")
	req := &Request{Bytes: []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), KeepBody: true}
	var r Response
	n := testing.AllocsPerRun(200, func() {
		s.in = text
		if _, err := c.Do(req, &r); err != nil || r.Status != 200 || !r.Reusable {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%g allocations a request", n)
	}
}

func TestAliveSeesTheEnd(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		peer, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = http.ReadRequest(bufio.NewReader(peer))
		_, _ = io.WriteString(peer, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		peer.Close()
	}()
	raw, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := NewConn(raw)
	defer c.Close()
	var r Response
	if err := do(c, false, false, &r); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Minute)
	for deadline := time.Now().Add(10 * time.Second); c.Alive(later); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a closed connection is believed to be good")
		}
	}
}

// FuzzResponse: what is taken net/http takes as well, and reads the same in it.
func FuzzResponse(f *testing.F) {
	for _, text := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n",
		"HTTP/1.0 404 Not Found\r\nX: y\r\n\r\nrest",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n",
		"HTTP/1.1 200 OK\nConnection: close\nA:b\n\nx",
	} {
		f.Add([]byte(text), uint64(1))
	}
	f.Fuzz(func(t *testing.T, text []byte, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var r Response
		conn := NewConn(answer(string(text), func() int { return 1 + rng.IntN(20) }))
		if do(conn, false, true, &r) != nil {
			return
		}
		in := bufio.NewReader(bytes.NewReader(text))
		for {
			theirs, err := http.ReadResponse(in, &http.Request{Method: http.MethodGet})
			if err != nil {
				t.Fatalf("net/http: %v, and it was taken", err)
			}
			body, err := io.ReadAll(theirs.Body)
			if err != nil {
				t.Fatalf("net/http: body: %v, and it was taken", err)
			}
			if theirs.StatusCode < 200 {
				continue
			}
			if theirs.StatusCode != r.Status || !bytes.Equal(body, r.Body) {
				t.Fatalf("%d %q, net/http has %d %q", r.Status, r.Body, theirs.StatusCode, body)
			}
			r.Each(func(name, value []byte) {
				if v := theirs.Header.Values(string(name)); len(v) > 0 && !strings.Contains(fmt.Sprint(v), string(value)) {
					t.Fatalf("field %q is %q, net/http has %q", name, value, v)
				}
			})
			return
		}
	})
}

func BenchmarkDo(b *testing.B) {
	s := &script{piece: whole}
	c := NewConn(s)
	text := []byte("HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nContent-Type: application/json\r\nContent-Length: 13\r\nConnection: keep-alive\r\n\r\n{\"ok\":\"yes!\"}")
	req := &Request{Bytes: []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), KeepBody: true}
	var r Response
	b.ReportAllocs()
	for b.Loop() {
		s.in = text
		if _, err := c.Do(req, &r); err != nil {
			b.Fatal(err)
		}
	}
}
