package engine

import (
	"bufio"
	"bytes"
	"compress/flate"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/h1"
)

// bomb is so many zeros, packed.
func bomb(t *testing.T, size int64) []byte {
	t.Helper()
	var b, piece bytes.Buffer
	z, err := flate.NewWriter(&piece, flate.DefaultCompression)
	if err != nil {
		t.Fatal(err)
	}
	none := make([]byte, pieceBytes)
	deflated := func(text []byte, end func() error) []byte {
		piece.Reset()
		z.Reset(&piece)
		if _, err := z.Write(text); err != nil {
			t.Fatal(err)
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		return bytes.Clone(piece.Bytes())
	}
	b.Write([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255})
	sum := crc32.NewIEEE()
	whole := deflated(none, z.Flush)
	left := size
	for ; left >= pieceBytes; left -= pieceBytes {
		b.Write(whole)
		sum.Write(none)
	}
	b.Write(deflated(none[:left], z.Close))
	sum.Write(none[:left])
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b.Bytes(), sum.Sum32()), uint32(size))
}

// pieceBytes of a bomb are compressed once: blocks that refer to nothing before them can
// be repeated.
const pieceBytes = 1 << 20

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// TestBadAnswers: whatever a target does over a real socket has its class, the connection is
// closed, and nothing is tried again: the target has as many requests as the report.
func TestBadAnswers(t *testing.T) {
	write := func(text string) func(net.Conn) {
		return func(c net.Conn) { _, _ = io.WriteString(c, text) }
	}
	ok := "HTTP/1.1 200 OK\r\n"
	packed := bomb(t, h1.MaxBody+1)
	for name, x := range map[string]struct {
		answer func(net.Conn)
		want   load.Class
		stays  bool // the connection does, after the answer
	}{
		"nothing":        {func(net.Conn) {}, load.EOF, false},
		"early close":    {write(ok + "Content-Length: 10\r\n\r\nabc"), load.EOF, false},
		"endless header": {write(ok + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 200)), load.Protocol, false},
		"bad chunk":      {write(ok + "Transfer-Encoding: chunked\r\n\r\nzz\r\n"), load.Protocol, false},
		"1xx flood":      {write(strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 100)), load.Protocol, false},
		"junk behind":    {write(ok + "Content-Length: 2\r\n\r\nok and more"), load.Protocol, false},
		"another speech": {write("220 mail.example.org ESMTP\r\n"), load.Protocol, false},
		"10 GB":          {write(ok + "Content-Length: 10000000000\r\n\r\n" + strings.Repeat("x", 1<<16)), load.TooLarge, false},
		"gzip bomb": {func(c net.Conn) {
			fmt.Fprintf(c, ok+"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", len(packed))
			_, _ = c.Write(packed)
		}, load.TooLarge, true},
		"no gzip": {write(ok + "Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nplain"), load.Protocol, true},
		"reset": {func(c net.Conn) {
			_ = c.(*net.TCPConn).SetLinger(0)
		}, load.Reset, false},
		"check":   {write(ok + "Content-Length: 13\r\n\r\n{\"ok\": false}"), load.CheckFailed, true},
		"extract": {write(ok + "Content-Length: 12\r\n\r\n{\"ok\": true}"), load.ExtractFailed, true},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			var asked, left atomic.Int64
			go func() { // ends with the listener
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					left.Add(1)
					go func() {
						defer left.Add(-1)
						defer c.Close()
						in := bufio.NewReader(c)
						for {
							r, err := http.ReadRequest(in)
							if err != nil {
								return
							}
							_, _ = io.Copy(io.Discard, r.Body)
							asked.Add(1)
							x.answer(c)
							if !x.stays {
								return
							}
						}
					}()
				}
			}()
			s := &scene{o: Options{PlainTime: true}}
			r := s.run(t.Context(), t, fmt.Sprintf(`
traffic.main = { flow = "f", users = 2, for = "60ms", think = "10ms" }
[[flow.f]]
get = "http://%s/"
check = "json('$.ok') == true"
extract.token = { json = "$.token" }`, l.Addr()))
			all := r.Whole.All()
			if all.Classes[x.want] == 0 || all.Classes[x.want] != all.Count() || all.Sent() != uint64(asked.Load()) {
				t.Errorf("%v of %d requests, want class %s: %q", all.Classes, asked.Load(), x.want, r.Errors)
			}
		})
	}
}

// TestLargeOverH2: what of an answer over HTTP/2 is kept is bounded, packed or not; what nobody
// looks at is read and not kept.
func TestLargeOverH2(t *testing.T) {
	packed := bomb(t, h1.MaxBody+1)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/packed" {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(packed)
			return
		}
		_, _ = io.CopyN(w, zeros{}, h1.MaxBody+1)
	}))
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	s.Config.Protocols = &p
	s.Start()
	defer s.Close()
	for path, want := range map[string]load.Class{"/packed\"\ncheck = \"json('$.ok') == true": load.TooLarge, "/plain\"\ncheck = \"json('$.ok') == true": load.TooLarge, "/plain": load.OK} {
		c := &scene{o: Options{PlainTime: true}}
		r := c.run(t.Context(), t, "http.version = \"h2c\"\ntraffic.main = { flow = \"f\", users = 1, for = \"50ms\", think = \"100ms\" }\n[[flow.f]]\nget = \""+s.URL+path+"\"\n")
		if all := r.Whole.All(); all.Classes[want] == 0 || all.Classes[want] != all.Count() {
			t.Errorf("%q: %v %q, want class %s", path, all.Classes, r.Errors, want)
		}
	}
}

// TestNoConnection: what keeps a connection from being made has its class.
func TestNoConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	l.Close()
	plain, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	go func() { // ends with the listener
		for {
			c, err := plain.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			c.Close()
		}
	}()
	failing := func(err error) func(context.Context, netip.AddrPort) (net.Conn, error) {
		return func(context.Context, netip.AddrPort) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", err)}
		}
	}
	for name, x := range map[string]struct {
		url  string
		o    Options
		want load.Class
	}{
		"refused": {"http://" + closed, Options{}, load.Refused},
		"no such name": {"http://nowhere.test", Options{Lookup: func(context.Context, string) ([]netip.Addr, error) {
			return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
		}}, load.DNS},
		"a name without addresses": {"http://nowhere.test", Options{Lookup: func(context.Context, string) ([]netip.Addr, error) { return nil, nil }}, load.DNS},
		"unreachable":              {"http://127.0.0.1:9", Options{Dial: failing(syscall.ENETUNREACH)}, load.Unreachable},
		"too slow":                 {"http://127.0.0.1:9", Options{Dial: failing(syscall.ETIMEDOUT)}, load.ConnectTimeout},
		"no descriptors":           {"http://127.0.0.1:9", Options{Dial: failing(syscall.EMFILE)}, load.Generator},
		"no ports":                 {"http://127.0.0.1:9", Options{Dial: failing(syscall.EADDRNOTAVAIL)}, load.Generator},
		"no TLS":                   {"https://" + plain.Addr().String(), Options{}, load.TLS},
	} {
		x.o.PlainTime = true
		s := &scene{o: x.o}
		r := s.run(t.Context(), t, "traffic.main = { flow = \"f\", users = 1, for = \"50ms\", think = \"10ms\" }\n[[flow.f]]\nget = \""+x.url+"/\"\n")
		if all := r.Whole.All(); all.Classes[x.want] == 0 || all.Classes[x.want] != all.Count() {
			t.Errorf("%s: %v %q, want class %s", name, all.Classes, r.Errors, x.want)
		}
	}
	if _, err := h1.Inflate(bomb(t, h1.MaxBody)); err != nil {
		t.Errorf("what may be kept: %v", err)
	}
	if _, err := h1.Inflate(bomb(t, 10*h1.MaxBody)); h1.ClassOf(err) != load.TooLarge {
		t.Errorf("a bomb: %v", err)
	}
	var own *h1.Error
	if _, err := h1.Inflate(bomb(t, 100)[:20]); !errors.As(err, &own) || own.Class != load.Protocol {
		t.Errorf("half a gzip: %v", err)
	}
}
