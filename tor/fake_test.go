package tor

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdh"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	io_prometheus_client "github.com/prometheus/client_model/go"
	"github.com/rs/zerolog"
)

const (
	testAddress = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion"
	hsdirA      = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	hsdirB      = "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"
)

// fakePort answers as a tor does that is bootstrapped, except where answer
// says something else: "" is silence.
type fakePort struct {
	answer  func(command string, w io.Writer) (reply string, ok bool)
	version string
	dials   atomic.Int32
	conn    atomic.Pointer[net.Conn]
}

func (f *fakePort) dial(context.Context) (net.Conn, error) {
	f.dials.Add(1)
	ours, theirs := net.Pipe()
	f.conn.Store(&theirs)
	go f.serve(theirs)
	return ours, nil
}

// say sends text that no command asked for.
func (f *fakePort) say(text string) {
	_, _ = io.WriteString(*f.conn.Load(), text)
}

func (f *fakePort) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		command := strings.TrimSpace(line)
		for strings.HasPrefix(command, "+") {
			body, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if body == ".\r\n" {
				break
			}
		}
		reply, ok := "", false
		if f.answer != nil {
			reply, ok = f.answer(command, c)
		}
		if !ok {
			reply = f.usual(command)
		}
		if reply == "hang up" {
			return
		}
		if _, err := io.WriteString(c, reply); err != nil {
			return
		}
	}
}

func (f *fakePort) usual(command string) string {
	version := f.version
	if version == "" {
		version = "0.4.9.11"
	}
	switch {
	case command == "PROTOCOLINFO":
		return "250-PROTOCOLINFO 1\r\n250-AUTH METHODS=NULL\r\n250-VERSION Tor=\"" + version + "\"\r\n250 OK\r\n"
	case command == "GETINFO consensus/valid-after":
		return "250-consensus/valid-after=2026-11-22 10:00:00\r\n250 OK\r\n"
	case command == "GETINFO consensus/fresh-until":
		return "250-consensus/fresh-until=2026-11-22 11:00:00\r\n250 OK\r\n"
	case strings.HasPrefix(command, "GETINFO status/bootstrap-phase"):
		return "250-status/bootstrap-phase=NOTICE BOOTSTRAP PROGRESS=100 TAG=done SUMMARY=\"Done\"\r\n250 OK\r\n"
	}
	return "250 OK\r\n"
}

// withFake runs f on fake time with a Tor attached to the port, which need not
// be ready.
func withFake(t *testing.T, port *fakePort, f func(t *testing.T, x *Tor)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		x, err := New(Options{
			Attach: &Attach{Control: "unix:/fake", Socks: "unix:/fake"}, Log: zerolog.Nop(),
			Jitter: func() float64 { return 0.5 }, dial: port.dial,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- x.Run(ctx) }()
		synctest.Wait()
		f(t, x)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		time.Sleep(2 * bulkTime) // what still waits has to end
	})
}

// TestReplies sends each answer to one command and looks at the error and
// whether the connection stands.
func TestReplies(t *testing.T) {
	for _, c := range []struct {
		name, reply string
		want        error
		stands      bool
	}{
		{"value", "250-x\r\n250 OK\r\n", ErrProtocol, false},
		{"other key", "250-foo=bar\r\n250 OK\r\n", ErrProtocol, false},
		{"right", "250+md/all=\r\nonion-key\r\n.\r\n250 OK\r\n", nil, true},
		{"event first", "650 HS_DESC UPLOADED " + strings.TrimSuffix(testAddress, ".onion") + " UNKNOWN $" + hsdirA + "~r\r\n" +
			"250+md/all=\r\nonion-key\r\n.\r\n250 OK\r\n", nil, true},
		{"event of many lines first", "650+NEWCONSENSUS\r\nr x\r\n.\r\n650 OK\r\n250+md/all=\r\nonion-key\r\n.\r\n250 OK\r\n", nil, true},
		{"551", "551 No microdescriptors\r\n", ErrNoDescriptor, true},
		{"552", "552 Unrecognized key\r\n", &ReplyError{}, true},
		{"hang up", "hang up", io.EOF, false},
		{"garbage", "\x00\xff\xfe garbage\r\n", errAny, false},
		{"short line", "25\r\n", ErrProtocol, false},
		{"no separator", "250=foo\r\n", ErrProtocol, false},
		{"code changes", "250-md/all=x\r\n251 OK\r\n", errAny, false},
		{"line without end", "250-md/all=" + strings.Repeat("x", maxLine) + "\r\n250 OK\r\n", ErrProtocol, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			port := &fakePort{}
			asked := false
			port.answer = func(command string, _ io.Writer) (string, bool) {
				if command != "GETINFO md/all" || asked {
					return "", false
				}
				asked = true
				return c.reply, true
			}
			withFake(t, port, func(t *testing.T, x *Tor) {
				sub := x.Subscribe(4)
				defer sub.Close()
				text, err := x.Microdescriptors(t.Context())
				var refusal *ReplyError
				_, wantsRefusal := c.want.(*ReplyError) //nolint:errorlint // a mark of this table
				switch {
				case c.want == nil:
					if err != nil || text != "onion-key\n" {
						t.Errorf("%q, %v", text, err)
					}
				case wantsRefusal:
					if !errors.As(err, &refusal) || refusal.Code != 552 {
						t.Errorf("error %v", err)
					}
				case errors.Is(c.want, errAny):
					if err == nil {
						t.Error("no error")
					}
				case !errors.Is(err, c.want):
					t.Errorf("error %v, want %v", err, c.want)
				}
				synctest.Wait()
				if stands := x.current.Load() != nil; stands != c.stands {
					t.Errorf("connection stands: %t, want %t", stands, c.stands)
				}
				// It comes back, and the next command works.
				time.Sleep(2 * minBackoff)
				synctest.Wait()
				if s := x.Status(); s.State != StateReady {
					t.Errorf("state %s afterwards: %s", s.State, s.Err)
				}
				if _, err := x.TestingNetwork(t.Context()); err != nil {
					t.Errorf("next command: %v", err)
				}
			})
		})
	}
}

var errAny = errors.New("any error")

// TestAuthorize: each of tor's ways to say yes is one, a refusal is an error, and
// no error repeats the key.
func TestAuthorize(t *testing.T) {
	key, err := ecdh.X25519().NewPrivateKey(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	secret := base64.StdEncoding.EncodeToString(key.Bytes())
	want := "ONION_CLIENT_AUTH_ADD " + strings.TrimSuffix(testAddress, ".onion") + " x25519:" + secret
	for reply, ok := range map[string]bool{
		"250 OK": true, "251 Client for onion existed and replaced": true, "252 Registered client and decrypted desc": true,
		"512 Invalid v3 address": false, "451 " + secret[:8]: false, "hang up": false,
	} {
		port, got := &fakePort{}, ""
		port.answer = func(command string, _ io.Writer) (string, bool) {
			if !strings.HasPrefix(command, "ONION_CLIENT_AUTH_ADD") {
				return "", false
			}
			if got = command; reply != "hang up" {
				return reply + "\r\n", true
			}
			return reply, true
		}
		withFake(t, port, func(t *testing.T, x *Tor) {
			err := x.authorize(t.Context(), testAddress, key)
			if (err == nil) != ok || err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %v", reply, err)
			}
			if got != want {
				t.Errorf("sent %q, want %q", got, want)
			}
			if got = ""; x.authorize(t.Context(), "skein.example", key) == nil || got != "" {
				t.Errorf("an address that is no onion: sent %q", got)
			}
		})
	}
}

// TestDialPrivate: a key that tor forgot before it was of use is given again,
// once.
func TestDialPrivate(t *testing.T) {
	key, err := ecdh.X25519().NewPrivateKey(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		answers []byte // of SOCKS
		given   int32
		want    error
	}{
		{"at once", []byte{0}, 1, nil},
		{"forgotten once", []byte{244, 0}, 2, nil},
		{"forgotten for ever", []byte{244, 244, 0}, 2, errNeedKey},
		{"another failure", []byte{247, 0}, 1, errAny},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "socks")
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				for _, answer := range c.answers {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					socksAnswer(conn, answer)
				}
			}()
			var given atomic.Int32
			port := &fakePort{answer: func(command string, _ io.Writer) (string, bool) {
				if strings.HasPrefix(command, "ONION_CLIENT_AUTH_ADD") {
					given.Add(1)
				}
				return "", false
			}}
			x, err := New(Options{Attach: &Attach{Control: "unix:/fake", Socks: "unix:" + path}, Log: zerolog.Nop(), dial: port.dial})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			done := make(chan error)
			go func() { done <- x.Run(ctx) }()
			if err := x.AwaitReady(ctx); err != nil {
				t.Fatal(err)
			}
			conn, err := x.DialPrivate(ctx, "test", testAddress+":80", key)
			if err == nil {
				conn.Close()
			}
			if (err == nil) != (c.want == nil) || c.want == errNeedKey && !errors.Is(err, errNeedKey) { //nolint:errorlint // a mark of this table
				t.Errorf("%v, want %v", err, c.want)
			}
			if given.Load() != c.given {
				t.Errorf("the key was given %d times, want %d", given.Load(), c.given)
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// socksAnswer takes a connection through SOCKS 5 with a name and answers.
func socksAnswer(conn net.Conn, answer byte) {
	defer conn.Close()
	buf := make([]byte, 512)
	for _, reply := range [][]byte{{5, 2}, {1, 0}, {5, answer, 0, 1, 0, 0, 0, 0, 0, 0}} {
		if _, err := conn.Read(buf); err != nil {
			return
		}
		if _, err := conn.Write(reply); err != nil {
			return
		}
	}
}

// TestUnasked: a reply to no command breaks the connection instead of being
// taken for the answer to the next one.
func TestUnasked(t *testing.T) {
	port := &fakePort{}
	withFake(t, port, func(t *testing.T, x *Tor) {
		sub := x.Subscribe(4)
		defer sub.Close()
		port.say("250 OK\r\n")
		e, err := sub.Next(t.Context())
		if d, ok := e.(Disconnected); err != nil || !ok || !errors.Is(d.Err, ErrProtocol) {
			t.Errorf("%v, %v", e, err)
		}
	})
}

// TestFloodOfEvents: events that nobody reads cost the oldest, and no command waits.
func TestFloodOfEvents(t *testing.T) {
	port := &fakePort{}
	withFake(t, port, func(t *testing.T, x *Tor) {
		sub := x.Subscribe(4)
		defer sub.Close()
		for i := range 1000 {
			port.say(fmt.Sprintf("650 STATUS_CLIENT NOTICE E%d\r\n", i))
		}
		if _, err := x.TestingNetwork(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for i := range 4 {
			e, err := sub.Next(t.Context())
			if s, ok := e.(StatusEvent); err != nil || !ok || s.Action != fmt.Sprintf("E%d", 996+i) {
				t.Errorf("event %v, %v", e, err)
			}
		}
		var dropped io_prometheus_client.Metric
		if err := x.metrics.dropped.Write(&dropped); err != nil || dropped.GetCounter().GetValue() != 996 {
			t.Errorf("%v dropped, %v", dropped.GetCounter(), err)
		}
	})
}

// onRealTime is withFake without a bubble: a command that waits does so for
// bine's mutex, which holds fake time up. Every command has limit.
func onRealTime(t *testing.T, port *fakePort, limit time.Duration, f func(t *testing.T, x *Tor)) {
	t.Helper()
	x, err := New(Options{
		Attach: &Attach{Control: "unix:/fake", Socks: "unix:/fake"}, Log: zerolog.Nop(),
		Jitter: func() float64 { return 0 }, dial: port.dial, limit: limit,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- x.Run(ctx) }()
	wait, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	if err := x.AwaitReady(wait); err != nil {
		t.Fatal(err)
	}
	f(t, x)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestSilence: a command without an answer, or with half of one, ends at its
// deadline, the connection with it, and the next connection works.
func TestSilence(t *testing.T) {
	for name, reply := range map[string]string{"silence": "", "half a reply": "250+md/all=\r\nonion-"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port := &fakePort{answer: func(command string, _ io.Writer) (string, bool) {
				return reply, command == "GETINFO md/all"
			}}
			onRealTime(t, port, 2*time.Second, func(t *testing.T, x *Tor) {
				first := x.current.Load()
				if _, err := x.Microdescriptors(t.Context()); !errors.Is(err, ErrDeadline) {
					t.Errorf("error %v", err)
				}
				<-first.done
				for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
					if _, err := x.TestingNetwork(t.Context()); err == nil {
						return
					} else if time.Now().After(end) {
						t.Fatalf("next command: %v", err)
					}
				}
			})
		})
	}
}

// TestGiveUpWaiting: a caller that goes leaves the connection to the others.
func TestGiveUpWaiting(t *testing.T) {
	release := make(chan struct{})
	port := &fakePort{answer: func(command string, _ io.Writer) (string, bool) {
		if command != "GETINFO md/all" {
			return "", false
		}
		<-release
		return "250-md/all=late\r\n250 OK\r\n", true
	}}
	onRealTime(t, port, time.Minute, func(t *testing.T, x *Tor) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		if _, err := x.Microdescriptors(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		close(release)
		if is, err := x.TestingNetwork(t.Context()); err != nil || is {
			t.Errorf("the next command: %t, %v", is, err)
		}
		if n := port.dials.Load(); n != 1 {
			t.Errorf("%d connections", n)
		}
	})
}

// TestUpload follows two HSDirs of which one refuses; a third says nothing.
func TestUpload(t *testing.T) {
	id := strings.TrimSuffix(testAddress, ".onion")
	hsdirC := strings.Repeat("C", 40)
	var sent atomic.Pointer[string]
	port := &fakePort{answer: func(command string, _ io.Writer) (string, bool) {
		if !strings.HasPrefix(command, "+HSPOST") {
			return "", false
		}
		sent.Store(&command)
		return "650 HS_DESC UPLOAD " + id + " UNKNOWN $" + hsdirA + "~a xyz\r\n250 OK\r\n" +
			"650 HS_DESC UPLOADED " + id + " UNKNOWN $" + hsdirA + "~a\r\n" +
			"650 HS_DESC UPLOADED foreign UNKNOWN $" + hsdirC + "~c\r\n" +
			"650 HS_DESC FAILED " + id + " UNKNOWN $" + hsdirB + "~b REASON=UPLOAD_REJECTED\r\n", true
	}}
	withFake(t, port, func(t *testing.T, x *Tor) {
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		results, err := x.Upload(ctx, testAddress, []string{hsdirA, hsdirB, hsdirC}, "hs-descriptor 3\n.dot\n")
		if err != nil || len(results) != 3 {
			t.Fatalf("%v, %v", results, err)
		}
		if results[0].Err != nil || !Rejected(results[1].Err) || !errors.Is(results[2].Err, ErrDeadline) {
			t.Errorf("results %v", results)
		}
		want := "+HSPOST SERVER=" + hsdirA + " SERVER=" + hsdirB + " SERVER=" + hsdirC + " HSADDRESS=" + id
		if got := *sent.Load(); got != want {
			t.Errorf("sent %q, want %q", got, want)
		}
	})
}

// TestOldTor: a version that lacks what is needed is a fault with a hint.
func TestOldTor(t *testing.T) {
	withFake(t, &fakePort{version: "0.4.6.12"}, func(t *testing.T, x *Tor) {
		if s := x.Status(); s.State != StateFaulty || !strings.Contains(s.Err, "hint:") {
			t.Errorf("status %+v", s)
		}
		if err := x.NewIdentity(t.Context()); !errors.Is(err, ErrNotConnected) || !strings.Contains(err.Error(), oldest) {
			t.Errorf("error %v", err)
		}
	})
}

// TestForeignCookie: a port that names another file as its cookie learns
// nothing of that file.
func TestForeignCookie(t *testing.T) {
	port := &fakePort{answer: func(command string, _ io.Writer) (string, bool) {
		if command != "PROTOCOLINFO" {
			return "", false
		}
		return "250-PROTOCOLINFO 1\r\n250-AUTH METHODS=COOKIE,SAFECOOKIE COOKIEFILE=\"/etc/shadow\"\r\n250-VERSION Tor=\"0.4.9.11\"\r\n250 OK\r\n", true
	}}
	withFake(t, port, func(t *testing.T, x *Tor) {
		if s := x.Status(); s.State != StateDown || !strings.Contains(s.Err, `wants the cookie "/etc/shadow"`) {
			t.Errorf("status %+v", s)
		}
	})
}

// TestSilentPort: a port that accepts and says nothing is tried with growing
// pauses, for ever.
func TestSilentPort(t *testing.T) {
	port := &fakePort{answer: func(string, io.Writer) (string, bool) { return "", true }}
	withFake(t, port, func(t *testing.T, x *Tor) {
		time.Sleep(time.Hour)
		synctest.Wait()
		// A minute of pause at most, of which jitter leaves three quarters,
		// and ten seconds for the silence.
		if n := port.dials.Load(); n < 60 || n > 80 {
			t.Errorf("%d connections in an hour", n)
		}
		if s := x.Status(); s.State != StateDown || !strings.Contains(s.Err, "did not answer in time") {
			t.Errorf("status %+v", s)
		}
	})
}

// endless is a server that sends the same for ever.
type endless struct {
	net.Conn
	text string
}

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.text[i%len(e.text)]
	}
	return len(p) - len(p)%len(e.text), nil
}

func TestEndlessReply(t *testing.T) {
	for _, text := range []string{"650-x\r\n", "650+x\r\n"} {
		g := newGuard(endless{text: text})
		g.limit = 1 << 20
		buffer := make([]byte, 4096)
		total := 0
		for {
			n, err := g.Read(buffer)
			if total += n; total > g.limit {
				t.Fatalf("%q: %d bytes went through", text, total)
			}
			if err != nil {
				if !errors.Is(err, ErrProtocol) {
					t.Errorf("%q: %v", text, err)
				}
				break
			}
		}
	}
}

// FuzzReplies feeds whatever to a session that has one command under way: it
// must come to an end, and so must the session when the connection does.
func FuzzReplies(f *testing.F) {
	for _, seed := range []string{
		"250 OK\r\n", "250-md/all=x\r\n250 OK\r\n", "250+md/all=\r\nx\r\n.\r\n250 OK\r\n", "650 HS_DESC CREATED a b c\r\n250 OK\r\n250 OK\r\n",
		"650+NEWCONSENSUS\r\n.\r\n650 OK\r\n", "650+HS_DESC_CONTENT a b $c\r\nx\r\n..\r\n.\r\n650 OK\r\n", "551 \r\n", "\n\n\n", "250", "65",
		"650-CONF_CHANGED\r\n650-A=b\r\n650 OK\r\n", "650 STATUS_CLIENT NOTICE X A=\"\\\r\n", "250+x\r\n.\r.\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		port := &fakePort{}
		port.answer = func(command string, w io.Writer) (string, bool) {
			if command != "GETINFO md/all" {
				return "", false
			}
			_, _ = w.Write(data)
			return "hang up", true
		}
		s, err := connect(t.Context(), &Options{Attach: &Attach{}, dial: port.dial}, func(e Event) { _ = e.String() })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.info(t.Context(), commandTime, "md/all"); errors.Is(err, ErrDeadline) {
			t.Errorf("hung: %v", err)
		}
		select {
		case <-s.done:
		case <-time.After(commandTime):
			t.Error("the session outlives its connection")
		}
	})
}
