package coord

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/internal/simnet"
)

const protoEcho = "echo/1"

// echo writes back what it reads and tells who it served.
func echo(served chan<- cluster.NodeID) transport.Handler {
	return func(_ context.Context, from cluster.NodeID, conn net.Conn) {
		_, _ = io.Copy(conn, conn)
		if served != nil {
			served <- from
		}
	}
}

func roundTrip(t *testing.T, c net.Conn, size int) {
	t.Helper()
	data := bytes.Repeat([]byte("skein"), size/5)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := c.Write(data); err != nil {
			t.Errorf("write: %v", err)
		}
	})
	got := make([]byte, len(data))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, data) {
		t.Errorf("read back %d bytes: %v", len(data), err)
	}
	wg.Wait()
}

func TestStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, lan)
		a, b, c := w.three()
		defer w.stopAll()
		served := make(chan cluster.NodeID, 8)
		b.svc.Handle(protoEcho, echo(served))
		for _, from := range []*host{a, c, b} { // the last is a stream to itself
			conn, err := from.svc.Dial(t.Context(), b.node, protoEcho)
			if err != nil {
				t.Fatal(err)
			}
			roundTrip(t, conn, 1_000_000)
			if err := conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("read past the deadline: %v", err)
			}
			conn.Close()
			if got := <-served; got != from.node {
				t.Errorf("served %s, want %s", got, from.node)
			}
		}
		var dial *transport.DialError
		if _, err := a.svc.Dial(t.Context(), "nobody", protoEcho); !errors.Is(err, transport.ErrNotMember) || !errors.As(err, &dial) {
			t.Errorf("dial of a stranger: %v", err)
		}
		for range maxPeerStreams + 1 { // each gives its place back
			if _, err := a.svc.Dial(t.Context(), c.node, protoEcho); err == nil || !strings.Contains(err.Error(), "protocol") {
				t.Fatalf("dial of a protocol nobody serves: %v", err)
			}
		}
		w.net.CutBoth(a.addr, b.addr)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.svc.Dial(ctx, b.node, protoEcho); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial across a cut: %v", err)
		}
		if n := a.gauge("skein_coord_streams_open"); n != 0 {
			t.Errorf("failed dials left %v streams open", n)
		}
	})
}

// TestStreamIdentity: who cannot show the key of the address it comes from is
// refused, on either side.
func TestStreamIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, simnet.Link{})
		a, b, c := w.three()
		defer w.stopAll()
		served := make(chan cluster.NodeID, 8)
		b.svc.Handle(protoEcho, echo(served))
		c.crash()
		w.net.Host(c.addr).Start()
		try := func(name string, host *simnet.Host, key ed25519.PrivateKey, protos []string, reason string) {
			t.Helper()
			before := b.metric("skein_coord_stream_errors_total", reason)
			raw, err := host.Dial(t.Context(), udpAddr(b.addr))
			if err != nil {
				t.Fatal(err)
			}
			defer raw.Close()
			var certs []tls.Certificate
			if key != nil {
				certs = append(certs, certificate(t, key))
			}
			conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: protos, Certificates: certs}) //nolint:gosec // the attacker's choice
			if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			_, werr := conn.Write([]byte("x"))
			if werr == nil {
				_, werr = conn.Read(make([]byte, 1))
			}
			if werr == nil {
				t.Errorf("%s: served", name)
			}
			synctest.Wait()
			if got := b.metric("skein_coord_stream_errors_total", reason); got != before+1 {
				t.Errorf("%s: counted %v as %s, want 1", name, got-before, reason)
			}
		}
		at := w.net.Host(c.addr)
		try("another member's key at c's address", at, a.key, []string{protoEcho}, "identity")
		try("stranger's key at c's address", at, seedKey("mallory"), []string{protoEcho}, "identity")
		try("no key", at, nil, []string{protoEcho}, "handshake")
		try("no protocol", at, c.key, nil, "handshake")
		try("unknown protocol", at, c.key, []string{"ssh"}, "handshake")
		try("unknown address", w.net.Host(udpAddr(c.addr).Addr().Next()), c.key, []string{protoEcho}, "not_member")
		// One that says nothing is dropped after the handshake's deadline.
		before := b.metric("skein_coord_stream_errors_total", "handshake")
		raw, err := at.Dial(t.Context(), udpAddr(b.addr))
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		time.Sleep(handshakeTimeout + time.Second)
		if got := b.metric("skein_coord_stream_errors_total", "handshake"); got != before+1 {
			t.Error("a silent connection was not dropped")
		}
		// Nobody answers for b with another key.
		l, err := at.Listen(Port)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		mallory := certificate(t, seedKey("mallory"))
		var wg sync.WaitGroup
		wg.Go(func() {
			raw, err := l.Accept()
			if err != nil {
				t.Errorf("accept: %v", err)
				return
			}
			defer raw.Close()
			srv := tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{mallory}, NextProtos: []string{protoEcho}})
			_ = srv.Handshake() // refused by the other side
		})
		if _, err := a.svc.Dial(t.Context(), c.node, protoEcho); !errors.Is(err, transport.ErrIdentity) {
			t.Errorf("dial of an impostor: %v", err)
		}
		wg.Wait()
		select {
		case n := <-served:
			t.Errorf("served %s", n)
		default:
		}
	})
}

func TestStreamBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, simnet.Link{})
		a, b, c := w.three()
		defer w.stopAll()
		b.svc.Handle(protoEcho, echo(nil))
		var open []net.Conn
		for {
			conn, err := a.svc.Dial(t.Context(), b.node, protoEcho)
			if err != nil {
				if !errors.Is(err, transport.ErrBusy) {
					t.Fatal(err)
				}
				break
			}
			open = append(open, conn)
			synctest.Wait() // handshakes that b has not ended count as well
		}
		if len(open) != maxPeerStreams {
			t.Errorf("%d streams to one peer, want %d", len(open), maxPeerStreams)
		}
		conn, err := c.svc.Dial(t.Context(), b.node, protoEcho)
		if err != nil {
			t.Fatalf("one peer's streams keep another out: %v", err)
		}
		roundTrip(t, conn, 100)
		conn.Close()
		for _, o := range open {
			o.Close()
		}
		synctest.Wait()
		if conn, err = a.svc.Dial(t.Context(), b.node, protoEcho); err != nil {
			t.Fatalf("places not given back: %v", err)
		}
		conn.Close()
	})
}

// TestRemovedMemberIsCutOff: a revoked key loses its streams, its datagrams
// and its place among the peers; and stopping ends what is open.
func TestRemovedMemberIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, lan)
		a, b, c := w.three()
		defer w.stopAll()
		a.svc.Handle(protoEcho, echo(nil))
		ended := make(chan error, 2)
		for _, h := range []*host{b, c} {
			conn, err := h.svc.Dial(t.Context(), a.node, protoEcho)
			if err != nil {
				t.Fatal(err)
			}
			roundTrip(t, conn, 100)
			go func() {
				_, err := conn.Read(make([]byte, 1))
				conn.Close()
				ended <- err
			}()
		}
		revoke, err := member.Revoke{
			Cluster: w.verify.Cluster, IDPub: publicKey(c.key), Reason: "lost", Issued: time.Now().Unix(),
			Expires: time.Now().Add(90 * 24 * time.Hour).Unix(), Issuer: publicKey(w.rootKey),
		}.Sign(w.rootKey)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.svc.AddRecords(t.Context(), member.Records{Revokes: []member.Signed{revoke}}); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err == nil {
			t.Error("read on a cut stream succeeded")
		}
		w.until("b knows", 5*time.Second, func() bool {
			_, there := b.svc.View().Member(c.node)
			return !there && a.rejected("unknown_sender") > 0
		})
		w.until("c is no voter any more", 30*time.Second, func() bool {
			st := a.svc.View().Lease
			return len(st.Config.Voters) == 2 && !st.Pending
		})
		a.stop()
		if err := <-ended; err == nil {
			t.Error("read on a stream of a stopped host succeeded")
		}
	})
}
