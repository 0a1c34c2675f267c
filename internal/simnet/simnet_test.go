package simnet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

var (
	addrA = netip.MustParseAddr("10.0.0.1")
	addrB = netip.MustParseAddr("10.0.0.2")
)

// must fails the test if a call failed whose result does not matter.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func send(t *testing.T, from, to *PacketConn, text string) {
	t.Helper()
	_, err := from.WriteTo([]byte(text), to.LocalAddr())
	must(t, err)
}

func packets(t *testing.T, n *Network) (a, b *PacketConn) {
	t.Helper()
	a, err := n.Host(addrA).ListenPacket(1)
	if err != nil {
		t.Fatal(err)
	}
	b, err = n.Host(addrB).ListenPacket(1)
	if err != nil {
		t.Fatal(err)
	}
	return a, b
}

func TestPacketsDelayLossAndCut(t *testing.T) {
	counts := make(map[uint64]int)
	for range 2 {
		for seed := range uint64(3) {
			synctest.Test(t, func(t *testing.T) {
				n := New(seed, Link{Delay: time.Millisecond, Jitter: 9 * time.Millisecond, Loss: 0.25})
				a, b := packets(t, n)
				start := time.Now()
				for range 400 {
					send(t, a, b, "x")
				}
				got := 0
				must(t, b.SetReadDeadline(start.Add(time.Second)))
				for {
					_, from, err := b.ReadFrom(make([]byte, 8))
					if err != nil {
						if !errors.Is(err, os.ErrDeadlineExceeded) {
							t.Fatal(err)
						}
						break
					}
					if from.String() != a.LocalAddr().String() {
						t.Fatalf("from %s", from)
					}
					if d := time.Since(start); d < time.Millisecond || d > 10*time.Millisecond {
						t.Fatalf("arrived after %s", d)
					}
					got++
				}
				if got < 260 || got > 340 {
					t.Fatalf("%d of 400 arrived with loss 0.25", got)
				}
				if before, ok := counts[seed]; ok && before != got {
					t.Fatalf("seed %d: %d then %d arrived", seed, before, got)
				}
				counts[seed] = got
				n.SetDefault(Link{})
				n.Cut(addrA, addrB)
				send(t, a, b, "lost")
				send(t, b, a, "other way")
				buf := make([]byte, 16)
				if k, _, err := a.ReadFrom(buf); err != nil || string(buf[:k]) != "other way" {
					t.Fatalf("read %q, %v", buf[:k], err)
				}
				n.Heal()
				send(t, a, b, "healed")
				must(t, b.SetReadDeadline(time.Time{}))
				if k, _, err := b.ReadFrom(buf); err != nil || string(buf[:k]) != "healed" {
					t.Fatalf("read %q, %v", buf[:k], err)
				}
			})
		}
	}
}

func dialPair(t *testing.T, n *Network) (client, server net.Conn) {
	t.Helper()
	l, err := n.Host(addrB).Listen(7)
	if err != nil {
		t.Fatal(err)
	}
	client, err = n.Host(addrA).Dial(t.Context(), netip.AddrPortFrom(addrB, 7))
	if err != nil {
		t.Fatal(err)
	}
	server, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return client, server
}

func TestStreamCarriesAndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1, Link{Delay: 5 * time.Millisecond, Jitter: 5 * time.Millisecond, Loss: 0.1})
		c, s := dialPair(t, n)
		data := bytes.Repeat([]byte("skein"), 100_000)
		go func() {
			if _, err := c.Write(data); err != nil {
				t.Errorf("write: %v", err)
			}
			c.Close()
		}()
		got, err := io.ReadAll(s)
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("read %d of %d bytes, %v", len(got), len(data), err)
		}
		s.Close()
		if _, err := s.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Fatalf("read after close: %v", err)
		}
	})
}

func TestStreamWaitsOutACut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1, Link{Delay: time.Millisecond})
		c, s := dialPair(t, n)
		n.CutBoth(addrA, addrB)
		_, err := c.Write([]byte("held"))
		must(t, err)
		must(t, s.SetReadDeadline(time.Now().Add(time.Second)))
		buf := make([]byte, 8)
		if _, err := s.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read across a cut: %v", err)
		}
		must(t, s.SetReadDeadline(time.Time{}))
		time.AfterFunc(time.Second, n.Heal)
		if k, err := s.Read(buf); err != nil || string(buf[:k]) != "held" {
			t.Fatalf("read %q, %v", buf[:k], err)
		}
		n.CutBoth(addrA, addrB)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := n.Host(addrA).Dial(ctx, netip.AddrPortFrom(addrB, 7)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("dial across a cut: %v", err)
		}
	})
}

func TestCrashIsSilentUntilRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1, Link{})
		c, s := dialPair(t, n)
		n.Host(addrB).Crash()
		if _, err := s.Read(make([]byte, 1)); err == nil {
			t.Fatal("the crashed end still reads")
		}
		if _, err := s.Write([]byte("last word")); err == nil {
			t.Fatal("the crashed end still writes")
		}
		must(t, c.SetDeadline(time.Now().Add(time.Second)))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read from a crashed host: %v", err)
		}
		n.Host(addrB).Start()
		must(t, c.SetDeadline(time.Time{}))
		if _, err := c.Write([]byte("x")); err == nil {
			t.Fatal("write to a restarted host succeeded")
		}
	})
}
