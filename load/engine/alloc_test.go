package engine

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/skein-project/skein/internal/faketarget"
	"github.com/skein-project/skein/load"
)

// parrot is a connection that answers each request in the same way, at once.
type parrot struct {
	net.Conn
	answer []byte
	left   []byte
}

func (p *parrot) Write(b []byte) (int, error) { p.left = p.answer; return len(b), nil }
func (p *parrot) Read(b []byte) (int, error) {
	n := copy(b, p.left)
	p.left = p.left[n:]
	return n, nil
}
func (p *parrot) SetDeadline(time.Time) error { return nil }
func (p *parrot) Close() error                { return nil }

// steady is a user whose connection is made.
func steady(tb testing.TB) *user {
	tb.Helper()
	s, err := load.Parse(`
traffic.main = { flow = "f", users = 1, for = "1s" }
[[flow.f]]
get = "http://127.0.0.1/?n=${random(1, 1000000)}"
headers = { X-User = "${user}" }
check = ["status == 200", "json('$.ok') == true"]
extract.token = { json = "$.token" }`)
	if err != nil {
		tb.Fatal(err)
	}
	p, err := s.Compile(load.Inputs{})
	if err != nil {
		tb.Fatal(err)
	}
	text := "HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nContent-Type: application/json\r\nContent-Length: 102\r\nConnection: keep-alive\r\n\r\n" + faketarget.Answer
	e, err := New(Options{Plan: p, Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
		return &parrot{answer: []byte(text)}, nil
	}})
	if err != nil {
		tb.Fatal(err)
	}
	e.hard, e.cut = context.WithCancel(context.Background())
	tb.Cleanup(e.cut)
	e.began = time.Now()
	u := e.newUser(p.Flows["f"])
	u.iterate(time.Time{}, false)
	if c := u.bank.Swap().Series[0].Classes; c[load.OK] != 1 {
		tb.Fatalf("%v %v", c, e.errors)
	}
	return u
}

// A steady iteration with a template, checks, a value and all that is counted allocates nothing.
func TestSteadyIterationAllocatesNothing(t *testing.T) {
	u := steady(t)
	if n := testing.AllocsPerRun(500, func() { u.iterate(time.Time{}, false) }); n != 0 {
		t.Errorf("%g allocations an iteration", n)
	}
}

// A value is kept apart from the answer and from those of other slots, an empty one is one,
// and where steps run at a time what another may read stays as it is.
func TestKeep(t *testing.T) {
	u := steady(t)
	if got := string(u.slots[0]); got != "t-1" {
		t.Fatalf("token is %q", got)
	}
	for _, kept := range [][][]byte{make([][]byte, 2), nil} {
		u.kept = kept
		text := []byte("one")
		a, b := u.keep(0, text), u.keep(1, nil)
		text[0] = 'X'
		if string(a) != "one" || kept != nil && (b == nil || len(b) != 0) {
			t.Errorf("%q %q", a, b)
		}
		if again := u.keep(0, []byte("two")); string(again) != "two" || kept == nil && string(a) != "one" {
			t.Errorf("%q, and before that %q", again, a)
		}
	}
}

func BenchmarkIteration(b *testing.B) {
	u := steady(b)
	b.ReportAllocs()
	for b.Loop() {
		u.iterate(time.Time{}, false)
	}
}
