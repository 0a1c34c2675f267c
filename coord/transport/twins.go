package transport

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/wire"
)

const (
	// twinSlack is how much later than the first message of a boot one of
	// an earlier boot must have been sent to be more than a straggler, in
	// seconds.
	twinSlack = 2
	// twinCount such messages, with at most twinGap between them, are
	// a finding.
	twinCount = 3
	twinGap   = time.Minute
	// TwinLife is how long a finding counts after its last message.
	TwinLife = 5 * time.Minute
	// recentSigs is of how many sequence numbers the signature is remembered.
	recentSigs = 64
)

// sigHead stands for a signature: equal messages have equal ones.
func sigHead(m wire.Message) uint64 {
	if len(m.Sig) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(m.Sig)
}

// accepted notes a message that passed all checks.
func (p *acceptPeer) accepted(m wire.Message) {
	if m.Boot != p.window.Boot() {
		p.since = m.Time
		clear(p.heads[:])
	}
	p.window.Advance(m.Boot, m.Seq)
	p.heads[m.Seq%recentSigs] = recentSig{seq: m.Seq, head: sigHead(m)}
}

type recentSig struct{ seq, head uint64 }

// twice reports whether m, which the window refused, proves a second process
// with its sender's identity: it is signed, and of an earlier boot than one that
// began before m was sent, or another message of a number that was used.
func (p *acceptPeer) twice(m wire.Message, self cluster.NodeID) bool {
	other := false
	switch r := p.heads[m.Seq%recentSigs]; {
	case m.Boot < p.window.Boot():
		other = m.Time > p.since+twinSlack
	case m.Boot == p.window.Boot():
		other = r.seq == m.Seq && r.head != sigHead(m)
	}
	return other && m.For(self) == nil && wire.Verify(m, p.key) == nil
}

// twins are the hosts of which two processes are heard. The readers of messages
// note them, the owner reads them.
type twins struct {
	mu sync.Mutex
	m  map[cluster.NodeID]twin
}

type twin struct {
	count int
	last  time.Duration
	boot  uint64 // that counts
}

func (t *twins) note(node cluster.NodeID, boot uint64, now time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.m[node]
	if now-v.last > twinGap && v.count < twinCount {
		v.count = 0
	}
	v.count, v.last, v.boot = min(v.count+1, twinCount), now, boot
	t.m[node] = v
}

// boot returns the boot of the process of node that counts, 0 if there is only
// one.
func (t *twins) boot(node cluster.NodeID, now time.Duration) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok := t.m[node]
	if !ok {
		return 0
	}
	if now-v.last > TwinLife {
		delete(t.m, node)
		return 0
	}
	if v.count < twinCount {
		return 0
	}
	return v.boot
}

func (t *twins) forget(node cluster.NodeID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.m, node)
}
