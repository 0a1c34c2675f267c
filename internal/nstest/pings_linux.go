package nstest

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// pingLinger is how long an answer to the last ping is waited for.
const pingLinger = 5 * time.Second

// Pings is a stream of UDP datagrams from one host to another, which sends
// each back.
type Pings struct {
	t            testing.TB
	client, echo net.PacketConn
	stop         chan struct{}
	sender       sync.WaitGroup
	wg           sync.WaitGroup // the others

	mu       sync.Mutex
	sent     []time.Time // by number
	answered map[uint64]bool
}

// PingResult is what came of a stream of pings.
type PingResult struct {
	Sent, Lost int
	// Gap is the longest time between two answered pings that follow each
	// other, as they were sent.
	Gap time.Duration
}

// Ping sends a datagram every interval from one address to another, until
// Stop. The addresses must be those of the two hosts, in the mesh or under it.
func Ping(from, to *Host, src, dst netip.Addr, interval time.Duration) *Pings {
	t := from.n.t
	t.Helper()
	p := &Pings{t: t, stop: make(chan struct{}), answered: map[uint64]bool{}}
	var err error
	if p.echo, err = to.ListenPacket(t.Context(), netip.AddrPortFrom(dst, 0).String()); err != nil {
		t.Fatalf("echo on %s: %v", to.name, err)
	}
	if p.client, err = from.ListenPacket(t.Context(), netip.AddrPortFrom(src, 0).String()); err != nil {
		t.Fatalf("ping from %s: %v", from.name, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); p.client.Close(); p.echo.Close(); p.sender.Wait(); p.wg.Wait() })
	p.wg.Go(p.answer)
	p.wg.Go(p.receive)
	p.sender.Go(func() { p.send(ctx, interval) })
	return p
}

func (p *Pings) answer() {
	var buf [64]byte
	for {
		n, from, err := p.echo.ReadFrom(buf[:])
		if err != nil {
			return
		}
		_, _ = p.echo.WriteTo(buf[:n], from) // lost like any other
	}
}

func (p *Pings) receive() {
	var buf [64]byte
	for {
		n, _, err := p.client.ReadFrom(buf[:])
		if err != nil {
			return
		}
		if n == 8 {
			p.mu.Lock()
			p.answered[binary.BigEndian.Uint64(buf[:])] = true
			p.mu.Unlock()
		}
	}
}

func (p *Pings) send(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	to := p.echo.LocalAddr()
	for {
		p.mu.Lock()
		number := uint64(len(p.sent))
		p.sent = append(p.sent, time.Now())
		p.mu.Unlock()
		_, _ = p.client.WriteTo(binary.BigEndian.AppendUint64(nil, number), to) // lost like any other
		select {
		case <-ticker.C:
		case <-p.stop:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Sent is how many pings were sent so far.
func (p *Pings) Sent() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.sent)
}

// Stop ends the stream, waits a moment for the last answers and counts.
func (p *Pings) Stop() PingResult {
	p.t.Helper()
	close(p.stop)
	p.sender.Wait()
	for deadline := time.Now().Add(pingLinger); time.Now().Before(deadline) && p.result().Lost > 0; {
		time.Sleep(10 * time.Millisecond) // between two looks
	}
	p.client.Close()
	p.echo.Close()
	p.wg.Wait()
	return p.result()
}

func (p *Pings) result() PingResult {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := PingResult{Sent: len(p.sent)}
	last := -1
	for i := range p.sent {
		if !p.answered[uint64(i)] {
			r.Lost++
			continue
		}
		if last >= 0 {
			r.Gap = max(r.Gap, p.sent[i].Sub(p.sent[last]))
		}
		last = i
	}
	return r
}
