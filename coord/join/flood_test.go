package join

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join/door"
)

// mapped is a listener whose connections from 127.9.0.0/16, where each test address
// is this machine's own, come from 198.18.0.0/16, as a source of their own.
type mapped struct{ net.Listener }

// Accept implements net.Listener.
func (m mapped) Accept() (net.Conn, error) {
	c, err := m.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return mappedConn{c}, nil
}

type mappedConn struct{ net.Conn }

// RemoteAddr implements net.Conn.
func (c mappedConn) RemoteAddr() net.Addr {
	ap := netip.MustParseAddrPort(c.Conn.RemoteAddr().String())
	ip := ap.Addr().As4()
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 18, ip[2], ip[3]}), ap.Port()))
}

// dialFrom dials from host k of network n.
func dialFrom(ctx context.Context, n, k byte, addr string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 9, n, k)}}
	return d.DialContext(ctx, "tcp", addr)
}

// TestJoinUnderPartialBodies: four addresses hold 64 connections with the beginning
// of a request on each, and open another at once for each that is closed; twelve
// hosts join all the same, one after the other.
func TestJoinUnderPartialBodies(t *testing.T) {
	s := newSite(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv, err := door.NewServer(door.ServerOptions{Key: s.id.IDKey(), Listener: mapped{ln}, Handler: s.sponsor})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = srv.Run(ctx) })
	defer running.Wait()
	defer cancel()

	const hosts, addrs, each = 12, 4, 16
	tok := s.token(hosts)
	tok.Addrs = []string{ln.Addr().String()}
	held := make(chan struct{}, addrs*each) // one for each that has sent its part once
	for i := range addrs * each {
		running.Go(func() {
			said := false
			for ctx.Err() == nil {
				inner, err := dialFrom(ctx, 1, byte(i%addrs+1), ln.Addr().String())
				if err != nil {
					return
				}
				stop := context.AfterFunc(ctx, func() { _ = inner.Close() })
				c := tls.Client(inner, door.ClientTLS(s.id.IDPub))
				_, err = fmt.Fprintf(c, "POST %s%s HTTP/1.1\r\nHost: skein\r\nContent-Length: 1000\r\n\r\n{", door.PathPrefix, tok.Invite)
				if err == nil && !said {
					said = true
					held <- struct{}{}
				}
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
				stop()
				select { // as fast as a sender of floods may be, and the tests of others live
				case <-ctx.Done():
				case <-time.After(50 * time.Millisecond):
				}
			}
		})
	}
	for range addrs * each {
		select {
		case <-held:
		case <-time.After(30 * time.Second):
			t.Fatal("the places are not taken")
		}
	}
	asked := 0
	for i := range hosts {
		o := s.options(cluster.NodeID(fmt.Sprintf("m%d", i)))
		o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			asked++
			return dialFrom(ctx, 2, byte(i+1), addr)
		}
		if err := Join(t.Context(), tok, t.TempDir(), o); err != nil {
			t.Errorf("host %d, asked %d times by now: %v\n%s", i, asked, err, s.log)
		}
	}
	// A host behind the flood would ask again and again; one or two are late where
	// there is much else to do.
	if asked > hosts+hosts/3 {
		t.Errorf("%d hosts asked %d times\n%s", hosts, asked, s.log)
	}
}
