package join

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
)

var (
	nodeOnion   = member.Onion{1}.String()
	masterOnion = member.Onion{2}.String()
)

// overTor is a site that is reached over onion addresses too: its own, and one
// behind which another host passes joins on.
type overTor struct {
	*site
	srv   *Server
	onion net.Listener
	front *httptest.Server
	door  *Doorkeeper
}

func newOverTor(t *testing.T) *overTor {
	t.Helper()
	o := &overTor{site: newSite(t)}
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	o.onion = listen()
	var err error
	o.srv, err = NewServer(ServerOptions{Identity: o.id, Listener: listen(), Onion: o.onion, Handler: o.sponsor, Knows: o.invites.Knows})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- o.srv.Run(ctx) }()
	var streams sync.WaitGroup
	o.door, err = NewDoorkeeper(DoorOptions{
		Secret: o.id.ClusterSecret(), Sponsors: func() []cluster.NodeID { return []cluster.NodeID{"n0", o.id.Node, "n9"} },
		Dial: func(_ context.Context, to cluster.NodeID) (net.Conn, error) {
			if to != o.id.Node {
				return nil, errors.New("out of reach")
			}
			a, b := net.Pipe()
			streams.Go(func() {
				o.srv.ServeDoor(ctx, "n5", b)
				_ = b.Close()
			})
			return a, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	o.front = httptest.NewServer(o.door)
	t.Cleanup(func() {
		o.front.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		streams.Wait()
	})
	return o
}

func (o *overTor) tokenFor(addrs ...string) Token {
	o.t.Helper()
	tok, err := o.invites.Create(o.id, addrs, time.Hour, 1, o.wall())
	if err != nil {
		o.t.Fatal(err)
	}
	again, err := ParseToken(tok.Reveal())
	if err != nil || !slices.Equal(again.Addrs, addrs) {
		o.t.Fatalf("token reads as %v, %v", again.Addrs, err)
	}
	return again
}

// via are options of a host with tor.
func (o *overTor) via(node cluster.NodeID) Options {
	opts := o.options(node)
	opts.DialOnion = func(ctx context.Context, addr string) (net.Conn, error) {
		at := map[string]string{nodeOnion + ":443": o.onion.Addr().String(), masterOnion + ":80": o.front.Listener.Addr().String()}[addr]
		if at == "" {
			return nil, errors.New("no such onion service")
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", at)
	}
	return opts
}

// TestJoinOverTor: by the sponsor's own onion address, and by the cluster's,
// behind which another host passes the connection on.
func TestJoinOverTor(t *testing.T) {
	o := newOverTor(t)
	for name, addrs := range map[string][]string{
		"host-own":  {nodeOnion + ":443"},
		"host-door": {Door(masterOnion, 80)},
		"host-both": {member.Onion{7}.String() + ":443", Door(masterOnion, 80)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			tok := o.tokenFor(addrs...)
			if some, all := tok.NeedsTor(); !some || !all {
				t.Error("the token does not need tor")
			}
			if err := Join(t.Context(), tok, dir, o.options(cluster.NodeID(name))); !errors.Is(err, ErrNeedTor) {
				t.Errorf("without tor: %v", err)
			}
			if err := Join(t.Context(), tok, dir, o.via(cluster.NodeID(name))); err != nil {
				t.Fatal(err)
			}
			id, _, err := Load(dir)
			if err != nil || string(id.Node) != name {
				t.Fatalf("%+v, %v", id, err)
			}
			// A second host does not get in by it, and learns no more than that.
			other := filepath.Join(t.TempDir(), "state")
			if err := Join(t.Context(), tok, other, o.via("host-late")); !errors.Is(err, ErrRefused) {
				t.Errorf("a used invite: %v", err)
			}
		})
	}
	if n := len(o.admissions()); n != 3 {
		t.Errorf("%d admissions", n)
	}
	if n := counted(t, o.door.results, doorPassed); n != 4 {
		t.Errorf("%v joins passed on", n)
	}
}

// TestJoinWaitsForOnions: an onion address that does not answer is tried again,
// on other circuits, with growing pauses; a wrong key behind it ends the join.
func TestJoinWaitsForOnions(t *testing.T) {
	o := newOverTor(t)
	tok := o.tokenFor(nodeOnion + ":443")
	synctest.Test(t, func(t *testing.T) {
		opts := o.options("host-slow")
		var dials, renewed int
		var at []time.Duration
		start := time.Now()
		opts.Rand = func() float64 { return 1 }
		opts.Renew = func(context.Context) { renewed++ }
		opts.DialOnion = func(context.Context, string) (net.Conn, error) {
			dials++
			at = append(at, time.Since(start))
			return nil, errors.New("no circuit")
		}
		if err := Join(t.Context(), tok, filepath.Join(t.TempDir(), "s"), opts); err == nil || !strings.Contains(err.Error(), "no circuit") {
			t.Errorf("%v", err)
		}
		want := []time.Duration{0, 5 * time.Second, 15 * time.Second, 35 * time.Second, 75 * time.Second}
		if dials != onionAsks || renewed != onionAsks-1 || !slices.Equal(at, want) {
			t.Errorf("%d dials at %v, %d times other circuits", dials, at, renewed)
		}
	})
	wrong := tok
	wrong.IDPub = slices.Clone(tok.IDPub)
	wrong.IDPub[0] ^= 1
	if err := Join(t.Context(), wrong, filepath.Join(t.TempDir(), "s"), o.via("host-x")); !errors.Is(err, ErrPin) {
		t.Errorf("wrong key: %v", err)
	}
}

func knock(method, path string, change func(*http.Request)) *http.Request {
	r := httptest.NewRequest(method, path, http.NoBody)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", doorProtocol)
	if change != nil {
		change(r)
	}
	return r
}

// TestDoorRefusals: whatever is wrong, the answer is the same, byte for byte,
// and takes the same time.
func TestDoorRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret := []byte("secret of the cluster")
		mine, away := newInviteID(secret, "n1"), newInviteID(secret, "n2")
		door, err := NewDoorkeeper(DoorOptions{
			Secret: secret, Sponsors: func() []cluster.NodeID { return []cluster.NodeID{"n1", "n2"} },
			Dial: func(ctx context.Context, to cluster.NodeID) (net.Conn, error) {
				if to == "n2" {
					<-ctx.Done() // out of reach
					return nil, ctx.Err()
				}
				a, b := net.Pipe()
				_ = b.Close() // does not know the invite
				return a, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		var first *httptest.ResponseRecorder
		for _, r := range []*http.Request{
			knock("POST", pathPrefix+mine, nil),
			knock("POST", pathPrefix+away, nil),
			knock("POST", pathPrefix+newInviteID(secret, "n3"), nil),
			knock("POST", pathPrefix+newInviteID([]byte("another"), "n1"), nil),
			knock("POST", pathPrefix+"aaaaaaaaaaaaaaaa", nil),
			knock("POST", pathPrefix+strings.ToUpper(mine), nil),
			knock("POST", pathPrefix+mine+"/", nil),
			knock("POST", pathPrefix, nil),
			knock("GET", pathPrefix+mine, nil),
			knock("POST", pathPrefix+mine+"?x=1", nil),
			knock("POST", pathPrefix+mine, func(r *http.Request) { r.Header.Del("Upgrade") }),
			knock("POST", pathPrefix+mine, func(r *http.Request) { r.ContentLength = 5 }),
			knock("POST", pathPrefix+mine, func(r *http.Request) { r.ContentLength = -1 }),
		} {
			start := time.Now()
			w := httptest.NewRecorder()
			door.ServeHTTP(w, r)
			if took := time.Since(start); took != doorTime {
				t.Errorf("%s %s: answered after %s", r.Method, r.URL, took)
			}
			if first == nil {
				first = w
			}
			if w.Code != http.StatusNotFound || w.Body.String() != first.Body.String() || len(w.Header()) != len(first.Header()) {
				t.Errorf("%s %s: %d %v %q", r.Method, r.URL, w.Code, w.Header(), w.Body)
			}
		}
	})
}

// TestDoorFlood: guesses, however many, wait in a room of their own and reach
// no other host; who has an invite gets through meanwhile.
func TestDoorFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret := []byte("secret of the cluster")
		dials := 0
		var mu sync.Mutex
		door, err := NewDoorkeeper(DoorOptions{
			Secret: secret, Sponsors: func() []cluster.NodeID { return []cluster.NodeID{"n1"} },
			Dial: func(context.Context, cluster.NodeID) (net.Conn, error) {
				mu.Lock()
				defer mu.Unlock()
				dials++
				return nil, errors.New("enough for this test")
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		var flood sync.WaitGroup
		for range 1000 {
			flood.Go(func() {
				door.ServeHTTP(httptest.NewRecorder(), knock("POST", pathPrefix+newInviteID([]byte("guess"), "n1"), nil))
			})
		}
		synctest.Wait()
		if n := counted(t, door.results, doorFlood); n != 1000-maxWaiting {
			t.Errorf("%v of 1000 guesses answered at once", n)
		}
		if dials != 0 {
			t.Errorf("%d guesses reached another host", dials)
		}
		good := newInviteID(secret, "n1")
		door.ServeHTTP(httptest.NewRecorder(), knock("POST", pathPrefix+good, nil))
		if dials != 1 {
			t.Error("a good invite did not get through")
		}
		flood.Wait()

		// Nor does one invite take all places.
		var leaves []func()
		for range maxPassedEach {
			leave, ok := door.enter(good)
			if !ok {
				t.Fatal("too few places")
			}
			leaves = append(leaves, leave)
		}
		if _, ok := door.enter(good); ok {
			t.Error("one invite takes more than its places")
		}
		if leave, ok := door.enter("another"); !ok {
			t.Error("another invite finds no place")
		} else {
			leave()
		}
		for _, leave := range leaves {
			leave()
		}
		if len(door.passed) != 0 || door.all != 0 {
			t.Errorf("places left behind: %v, %d", door.passed, door.all)
		}
	})
}

// TestFailedTriesThroughTor: guesses that come through tor, where all look
// alike, use up nobody's tries who has an invite.
func TestFailedTriesThroughTor(t *testing.T) {
	o := newOverTor(t)
	tok := o.tokenFor(nodeOnion + ":443")
	bad := tok
	for range 3 * maxTries {
		bad.Invite = newInviteID([]byte("guess"), "n1")
		_ = Join(t.Context(), bad, filepath.Join(t.TempDir(), "s"), o.via("host-bad")) // refused
	}
	if err := Join(t.Context(), tok, filepath.Join(t.TempDir(), "s"), o.via("host-good")); err != nil {
		t.Errorf("after a flood of guesses: %v", err)
	}
}

// TestThroughDoorHostile: what stands behind the onion address is not believed.
func TestThroughDoorHostile(t *testing.T) {
	for name, answer := range map[string]string{
		"404":            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
		"200":            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
		"not HTTP":       "SSH-2.0-x\r\n",
		"cut":            "HTTP/1.1 101 Swi",
		"endless header": "HTTP/1.1 101 Switching Protocols\r\n" + strings.Repeat("x: y\r\n", 100_000),
		"endless line":   "HTTP/1.1 101 " + strings.Repeat("x", 1<<20),
		"nothing":        "",
	} {
		t.Run(name, func(t *testing.T) {
			near, far := net.Pipe()
			defer near.Close()
			go func() {
				defer far.Close()
				buf := make([]byte, 4096)
				_, _ = far.Read(buf)
				_, _ = io.WriteString(far, answer)
			}()
			if _, err := throughDoor(t.Context(), near, masterOnion+":80", "aaaaaaaaaaaaaaaa"); !errors.Is(err, ErrDoor) {
				t.Errorf("%v", err)
			}
		})
	}
	near, far := net.Pipe()
	defer near.Close()
	go func() {
		defer far.Close()
		_, _ = far.Read(make([]byte, 4096))
		_, _ = io.WriteString(far, "HTTP/1.1 101 Switching Protocols\r\n\r\nearly")
		_, _ = io.WriteString(far, " and late")
	}()
	c, err := throughDoor(t.Context(), near, masterOnion+":80", "aaaaaaaaaaaaaaaa")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); string(got) != "early and late" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestServeDoorHostile: a stream of a door that names no invite of this host
// ends without a word.
func TestServeDoorHostile(t *testing.T) {
	o := newOverTor(t)
	for name, first := range map[string]string{
		"unknown": "aaaaaaaaaaaaaaaa", "short": "aaaa", "binary": "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f",
	} {
		near, far := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			o.srv.ServeDoor(t.Context(), "n5", far)
			_ = far.Close()
		}()
		_, _ = io.WriteString(near, first)
		if len(first) < inviteIDLen {
			_ = near.Close()
		} else if n, err := near.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("%s: answered", name)
		}
		<-done
		_ = near.Close()
	}
}

func TestSponsorOf(t *testing.T) {
	secret := []byte("secret")
	id := newInviteID(secret, "n2")
	if !validInviteID(id) {
		t.Fatalf("%q is no id", id)
	}
	for name, c := range map[string]struct {
		secret, id string
		among      []cluster.NodeID
		want       cluster.NodeID
	}{
		"found":          {"secret", id, []cluster.NodeID{"n1", "n2", "n3"}, "n2"},
		"not among them": {"secret", id, []cluster.NodeID{"n1", "n3"}, ""},
		"nobody":         {"secret", id, nil, ""},
		"other cluster":  {"other", id, []cluster.NodeID{"n2"}, ""},
		"changed":        {"secret", "a" + id[1:], []cluster.NodeID{"n2"}, map[bool]cluster.NodeID{true: "n2"}[id[0] == 'a']},
		"no id":          {"secret", "x", []cluster.NodeID{"n2"}, ""},
	} {
		if got, ok := SponsorOf([]byte(c.secret), c.id, c.among); got != c.want || ok != (c.want != "") {
			t.Errorf("%s: %q, %t", name, got, ok)
		}
	}
}

func TestTokenAddresses(t *testing.T) {
	for addr, good := range map[string]bool{
		"192.0.2.1:51822": true, nodeOnion + ":443": true, Door(masterOnion, 80): true,
		"http://" + masterOnion: false, "http://192.0.2.1:80": false, "https://" + masterOnion + ":80": false,
		"abc.onion:443": false, "http://" + strings.ToUpper(masterOnion) + ":80": false, "http://http://" + masterOnion + ":80": false,
		"x" + nodeOnion + ":443": false, masterOnion + ":0": false,
	} {
		if err := checkAddrs([]string{addr}); (err == nil) != good {
			t.Errorf("%s: %v", addr, err)
		}
	}
}
