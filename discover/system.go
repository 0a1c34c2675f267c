package discover

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// System asks the name servers of this machine.
type System struct{}

// Addresses implements Resolver.
func (System) Addresses(ctx context.Context, name string) (list []netip.Addr, ttl time.Duration, err error) {
	var heard hearing
	list, err = heard.resolver().LookupNetIP(ctx, "ip", name)
	return list, heard.ttl(), none(err)
}

// Targets implements Resolver.
func (System) Targets(ctx context.Context, service string) (list []Target, ttl time.Duration, err error) {
	var heard hearing
	_, found, err := heard.resolver().LookupSRV(ctx, "", "", service)
	for _, s := range found {
		list = append(list, Target{Name: s.Target, Port: s.Port})
	}
	if len(list) > 0 {
		err = nil // what could not be read of the answer is left out
	}
	return list, heard.ttl(), none(err)
}

// none turns what the library says of names that are not there into ErrNone.
func none(err error) error {
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return errors.Join(ErrNone, err)
	}
	return err
}

// hearing reads along how long answers count, which the library does not tell.
type hearing struct{ least atomic.Int64 } // seconds and one; 0: none heard

func (h *hearing) ttl() time.Duration { return time.Duration(max(h.least.Load()-1, 0)) * time.Second }

func (h *hearing) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, address)
		if udp, ok := conn.(*net.UDPConn); ok && err == nil {
			return &packets{UDPConn: udp, heard: h}, nil
		}
		return conn, err // of answers by TCP nothing is heard
	}}
}

// packets is a connection by datagrams. It embeds one, for the library to know.
type packets struct {
	*net.UDPConn
	heard *hearing
}

// Read implements net.Conn.
func (p *packets) Read(b []byte) (int, error) {
	n, err := p.UDPConn.Read(b)
	if err == nil {
		p.heard.read(b[:n])
	}
	return n, err
}

// read takes in an answer; what cannot be read of it is for the library to refuse.
func (h *hearing) read(b []byte) {
	var p dnsmessage.Parser
	if _, err := p.Start(b); err != nil || p.SkipAllQuestions() != nil {
		return
	}
	for {
		r, err := p.AnswerHeader()
		if err != nil || p.SkipAnswer() != nil {
			return
		}
		for ttl := int64(r.TTL) + 1; ; {
			old := h.least.Load()
			if old != 0 && old <= ttl || h.least.CompareAndSwap(old, ttl) {
				break
			}
		}
	}
}
