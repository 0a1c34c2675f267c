package memberbench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/bench/testbed"
)

// gossip is a cluster of hashicorp/memberlist nodes with DefaultLANConfig.
type gossip struct {
	m     *testbed.Meter
	n     int
	nodes []*memberlist.Memberlist // that are up
	gone  *departures
}

func newGossip(ctx context.Context, n int) (*gossip, error) {
	g := &gossip{m: &testbed.Meter{}, n: n, gone: newDepartures()}
	net := testbed.Subnet(4)
	addr := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{net[0], net[1], net[2], byte(i + 1)}) }
	port, err := testbed.FreePort(addr(0))
	if err != nil {
		return nil, err
	}
	quiet := log.New(io.Discard, "", 0)
	var seeds []string
	for i := range n {
		nt, err := memberlist.NewNetTransport(&memberlist.NetTransportConfig{
			BindAddrs: []string{addr(i).String()}, BindPort: int(port), Logger: quiet,
		})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("memberlist: %w", err), g.close())
		}
		cfg := memberlist.DefaultLANConfig()
		cfg.Name = fmt.Sprintf("node-%03d", i+1)
		cfg.Transport = newMeteredTransport(nt, g.m)
		cfg.BindAddr, cfg.BindPort, cfg.AdvertisePort = addr(i).String(), int(port), int(port)
		cfg.LogOutput = io.Discard
		cfg.Events = leavers{name: cfg.Name, gone: g.gone}
		node, err := memberlist.Create(cfg)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("memberlist: %w", err), g.close())
		}
		g.nodes = append(g.nodes, node)
		// Joining all that are there saves waiting for the next exchange of
		// full states, once in 30 s, which mends what gossip missed.
		if len(seeds) > 0 {
			if _, err := node.Join(seeds); err != nil {
				return nil, errors.Join(fmt.Errorf("memberlist: %w", err), g.close())
			}
		}
		seeds = append(seeds, netip.AddrPortFrom(addr(i), port).String())
	}
	if err := suite.Poll(ctx, fmt.Sprintf("%d nodes of memberlist see each other", n), 3*time.Minute, g.complete); err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

func (g *gossip) lives(node string) bool {
	return slices.ContainsFunc(g.nodes, func(m *memberlist.Memberlist) bool { return m.LocalNode().Name == node })
}

func (g *gossip) complete() bool {
	return !slices.ContainsFunc(g.nodes, func(m *memberlist.Memberlist) bool { return m.NumMembers() != len(g.nodes) })
}

// crash stops the last node without a goodbye.
func (g *gossip) crash() (name string, err error) {
	m := g.nodes[len(g.nodes)-1]
	g.nodes = g.nodes[:len(g.nodes)-1]
	return m.LocalNode().Name, m.Shutdown()
}

func (g *gossip) close() error {
	var errs []error
	for _, m := range g.nodes {
		errs = append(errs, m.Shutdown())
	}
	g.nodes = nil
	return errors.Join(errs...)
}

// leavers notes whom a node takes out.
type leavers struct {
	name string
	gone *departures
}

func (leavers) NotifyJoin(*memberlist.Node)      {}
func (leavers) NotifyUpdate(*memberlist.Node)    {}
func (l leavers) NotifyLeave(n *memberlist.Node) { l.gone.note(l.name, n.Name) }

// meteredTransport counts what a node sends and loses datagrams, as packets
// do for skein.
type meteredTransport struct {
	*memberlist.NetTransport
	m       *testbed.Meter
	streams chan net.Conn // handed over one by one: the sender waits, as the transport's own does
	stop    chan struct{} // closed by Shutdown
	down    sync.Once
}

var _ memberlist.NodeAwareTransport = (*meteredTransport)(nil)

func newMeteredTransport(nt *memberlist.NetTransport, m *testbed.Meter) *meteredTransport {
	t := &meteredTransport{NetTransport: nt, m: m, streams: make(chan net.Conn), stop: make(chan struct{})}
	go t.accept()
	return t
}

// accept counts what is answered on streams that others opened; it ends with
// Shutdown.
func (t *meteredTransport) accept() {
	for {
		select {
		case <-t.stop:
			return
		case c := <-t.NetTransport.StreamCh():
			select {
			case <-t.stop:
				c.Close()
				return
			case t.streams <- &testbed.MeteredConn{Conn: c, M: t.m}:
			}
		}
	}
}

func (t *meteredTransport) StreamCh() <-chan net.Conn { return t.streams }

func (t *meteredTransport) Shutdown() error {
	t.down.Do(func() { close(t.stop) })
	return t.NetTransport.Shutdown()
}

func (t *meteredTransport) WriteTo(b []byte, addr string) (time.Time, error) {
	if t.m.Packet(len(b)) {
		return time.Now(), nil
	}
	return t.NetTransport.WriteTo(b, addr)
}

func (t *meteredTransport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return t.WriteTo(b, a.Addr)
}

func (t *meteredTransport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	c, err := t.NetTransport.DialTimeout(addr, timeout)
	if err != nil {
		return nil, err
	}
	return &testbed.MeteredConn{Conn: c, M: t.m}, nil
}

func (t *meteredTransport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return t.DialTimeout(a.Addr, timeout)
}
