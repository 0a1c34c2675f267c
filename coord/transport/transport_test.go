package transport

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/path"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/loglimit"
	"github.com/skein-project/skein/internal/simnet"
)

// members are three hosts at 10.0.0.1 and so on.
func members() []cluster.Member {
	var out []cluster.Member
	for i, node := range []cluster.NodeID{"host-a", "host-b", "host-c"} {
		out = append(out, cluster.Member{
			Node: node, IDPub: publicKey(seedKey(string(node))), IP4: netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}),
		})
	}
	return out
}

// at is a Transport of one of members on a simulated network, running until the
// test ends. It needs nobody who knows what messages mean.
func at(t *testing.T, n *simnet.Network, m cluster.Member) *Transport {
	t.Helper()
	return logged(t, n, m, zerolog.Nop())
}

// logged is at with a log.
func logged(t *testing.T, n *simnet.Network, m cluster.Member, log zerolog.Logger) *Transport {
	t.Helper()
	host := n.Host(m.IP4)
	pc, err := host.ListenPacket(51821)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := host.Listen(51821)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	now := func() time.Duration { return time.Since(start) + time.Hour }
	tr, err := New(Options{
		Self: m.Node, Key: seedKey(string(m.Node)), Boot: 1, PacketConn: pc, Listener: ln, DialTCP: host.Dial, Port: 51821,
		Heartbeat: time.Second, Suspect: 3 * time.Second, Tolerance: 5 * time.Second, Now: now, Wall: time.Now,
		Rand: func() float64 { return 0.5 }, Post: func(f func()) { f() }, OnPath: func(path.Changed) {},
		Logger: log, Gate: loglimit.New(now, time.Second),
	})
	if err != nil {
		t.Fatal(err)
	}
	tr.SetMembers(members())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tr.Run(ctx, func(err error) { t.Error(err) })
	}()
	t.Cleanup(func() {
		cancel()
		tr.CloseSend()
		<-done
	})
	synctest.Wait()
	return tr
}

// TestTransport: messages and questions pass between members, and no longer once
// one is removed.
func TestTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, ms := simnet.New(1, simnet.Link{}), members()
		a, b := at(t, n, ms[0]), at(t, n, ms[1])
		if err := a.Send("host-b", wire.TypeBackendUnhealthy, wire.BackendUnhealthy{Backend: "x"}); err != nil {
			t.Fatal(err)
		}
		if d := <-b.Inbox(); d.Msg.Node != "host-a" || d.Msg.Type != wire.TypeBackendUnhealthy || d.Onion {
			t.Errorf("%+v", d)
		}
		b.Handle("twice/1", func(_ context.Context, from cluster.NodeID, conn net.Conn) {
			var q int
			if from != "host-a" {
				t.Errorf("%s asks", from)
			}
			if ReadFrame(conn, 10, &q) == nil {
				_ = WriteFrame(conn, 2*q) // the other end judges
			}
		})
		var answer int
		if err := a.Ask(t.Context(), "host-b", "twice/1", time.Second, 21, 10, &answer); err != nil || answer != 42 {
			t.Errorf("%d, %v", answer, err)
		}
		conn, err := a.Dial(t.Context(), "host-b", "twice/1")
		if err != nil {
			t.Fatal(err)
		}
		b.SetMembers(ms[1:])
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Error("a stream of a removed member lives on")
		}
		_ = conn.Close() // the other end closed it
		if err := a.Send("host-b", wire.TypeBackendUnhealthy, wire.BackendUnhealthy{Backend: "x"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := b.Refused()[string(wire.ReasonUnknownSender)]; n != 1 || len(b.Inbox()) != 0 {
			t.Errorf("refused %v", b.Refused())
		}
		if err := b.Send("host-a", wire.TypeHeartbeat, nil); !errors.Is(err, ErrNotMember) {
			t.Errorf("to a removed member: %v", err)
		}
	})
}

// TestHangingUpIsNoWarning: a member that ends a stream before it began, or that was
// one until now, is nothing that an operator must see; a stranger is.
func TestHangingUpIsNoWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, ms := simnet.New(1, simnet.Link{}), members()
		var log bytes.Buffer
		b := logged(t, n, ms[1], zerolog.New(zerolog.SyncWriter(&log)))
		dial := func(from netip.Addr) {
			conn, err := n.Host(from).Dial(t.Context(), netip.AddrPortFrom(ms[1].IP4, 51821))
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.Close() // at once
			synctest.Wait()
		}
		dial(ms[0].IP4)
		if got := log.String(); !strings.Contains(got, `"level":"debug"`) || strings.Contains(got, `"level":"warn"`) || !strings.Contains(got, "stream of host-a: EOF") {
			t.Errorf("a member hung up: %s", got)
		}
		b.SetMembers(ms[1:])
		dial(ms[0].IP4)
		if got := log.String(); strings.Contains(got, `"level":"warn"`) || !strings.Contains(got, ErrNotMember.Error()) {
			t.Errorf("a former member hung up: %s", got)
		}
		dial(netip.MustParseAddr("10.0.0.99"))
		if got := log.String(); strings.Count(got, `"level":"warn"`) != 1 || !strings.Contains(got, ErrNotMember.Error()) {
			t.Errorf("a stranger hung up: %s", got)
		}
	})
}

// TestOnionForgery: over the stream of one member nobody speaks for another, and
// what is old stays old there.
func TestOnionForgery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := at(t, simnet.New(1, simnet.Link{}), members()[0])
		time.Sleep(time.Minute) // what is from before its start is refused for that
		header := wire.Header{Node: "host-c", Time: time.Now().Unix(), Type: wire.TypeLeaseRelease, To: "host-a", Boot: 1, Seq: 1 << 40}
		c := &peer{node: "host-c", key: seedKey("host-c")}
		forged := sealFor(t, c, header, nil)
		a.overOnion("host-b", forged)
		if n := a.Refused()[string(wire.ReasonSource)]; n != 1 {
			t.Errorf("c's message over b's stream: refused %d times for its source", n)
		}
		a.overOnion("nobody", forged)
		header.Time -= 60
		a.overOnion("host-c", sealFor(t, c, header, nil))
		if n := a.Refused()[string(wire.ReasonClock)]; n != 1 {
			t.Errorf("an old message: refused %d times for its time", n)
		}
		header.Time += 50 // as old as is good there, and not over the mesh
		a.overOnion("host-c", sealFor(t, c, header, nil))
		if len(a.Inbox()) != 1 {
			t.Errorf("refused %v", a.Refused())
		}
	})
}
