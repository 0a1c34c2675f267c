package join

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join/door"
	"github.com/skein-project/skein/coord/join/token"
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
	srv     *door.Server
	onion   net.Listener
	front   *httptest.Server
	door    *door.Keeper
	metrics *prometheus.Registry
}

func newOverTor(t *testing.T) *overTor {
	t.Helper()
	o := &overTor{site: newSite(t), metrics: prometheus.NewRegistry()}
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	o.onion = listen()
	var err error
	o.srv, err = door.NewServer(door.ServerOptions{Key: o.id.IDKey(), Listener: listen(), Onion: o.onion, Handler: o.sponsor, Knows: o.invites.Knows})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- o.srv.Run(ctx) }()
	var streams sync.WaitGroup
	o.door, err = door.New(door.Options{
		Registerer: o.metrics,
		Secret:     o.id.ClusterSecret(), Sponsors: func() []cluster.NodeID { return []cluster.NodeID{"n0", o.id.Node, "n9"} },
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

func (o *overTor) tokenFor(addrs ...string) token.Token {
	o.t.Helper()
	tok, err := o.invites.Create(o.id, addrs, time.Hour, 1, o.wall())
	if err != nil {
		o.t.Fatal(err)
	}
	again, err := token.Parse(tok.Reveal())
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
		"host-door": {token.Door(masterOnion, 80)},
		"host-both": {member.Onion{7}.String() + ":443", token.Door(masterOnion, 80)},
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
	families, err := o.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range families[0].GetMetric() {
		if l := m.GetLabel()[0].GetValue(); l == "passed" && m.GetCounter().GetValue() != 4 {
			t.Errorf("%v joins passed on", m.GetCounter().GetValue())
		}
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

// TestFailedTriesThroughTor: guesses that come through tor, where all look
// alike, use up nobody's tries who has an invite.
func TestFailedTriesThroughTor(t *testing.T) {
	o := newOverTor(t)
	tok := o.tokenFor(nodeOnion + ":443")
	bad := tok
	for range 3 * door.MaxTries {
		bad.Invite = token.NewID([]byte("guess"), "n1")
		_ = Join(t.Context(), bad, filepath.Join(t.TempDir(), "s"), o.via("host-bad")) // refused
	}
	if err := Join(t.Context(), tok, filepath.Join(t.TempDir(), "s"), o.via("host-good")); err != nil {
		t.Errorf("after a flood of guesses: %v", err)
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
		if len(first) < token.IDLen {
			_ = near.Close()
		} else if n, err := near.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("%s: answered", name)
		}
		<-done
		_ = near.Close()
	}
}
