package engine

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/skein-project/skein/load/h1"
	"github.com/skein-project/skein/load/reach"
)

// conn is a connection to an origin over HTTP/1.1.
type conn struct {
	*h1.Conn
	o    *reach.Origin
	addr netip.AddrPort
	gen  uint64
}

// gone reports whether the address of a connection is none of its origin any more.
func (c *conn) gone() bool {
	gen := c.o.Generation()
	if gen == c.gen {
		return false
	}
	c.gen = gen
	return !slices.Contains(c.o.Addrs(), c.addr.Addr())
}

// pool has the connections that nobody uses, of users that share them.
type pool struct {
	mu   sync.Mutex
	idle map[*reach.Origin][]*conn
}

// take is one to an origin; nil: none.
func (p *pool) take(o *reach.Origin) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.idle[o]
	n := len(list)
	if n == 0 {
		return nil
	}
	p.idle[o] = list[:n-1]
	return list[n-1]
}

func (p *pool) put(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.idle == nil {
		p.idle = map[*reach.Origin][]*conn{}
	}
	p.idle[c.o] = append(p.idle[c.o], c)
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, list := range p.idle {
		for _, c := range list {
			c.Close()
		}
	}
	p.idle = nil
}
