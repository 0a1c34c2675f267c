package coord

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/wire"
)

// One identity belongs to one process. A copy of a disk, started elsewhere,
// signs with the same key; what tells the two apart is the boot in each
// message, which no two starts share (see MarkBoot). Every host takes the
// messages of the higher one, so that all agree on who counts and nothing flaps;
// those of the other are refused, and since they go on while a start does not
// outlive the next, they show that there are two.

// markBits is how much of a boot is drawn at the start.
const markBits = 16

// MarkBoot makes a boot of the persisted counter of starts and a random mark:
// it rises with every start, and is another for a copy that was started as
// often.
func MarkBoot(counter uint64, mark uint32) uint64 {
	return min(counter, wire.MaxNumber>>markBits)<<markBits | uint64(mark)&(1<<markBits-1)
}

// firstBoot reports whether boot is of a host's first start ever, marked or not.
func firstBoot(boot uint64) bool { return boot == 1 || boot>>markBits == 1 }

const (
	// duplicateSlack is how much later than the first message of a boot one of
	// an earlier boot must have been sent to be more than a straggler, in
	// seconds.
	duplicateSlack = 2
	// duplicateCount such messages, with at most duplicateGap between them, are
	// a finding, which counts for duplicateLife after the last.
	duplicateCount = 3
	duplicateGap   = time.Minute
	duplicateLife  = 5 * time.Minute
	// recentSigs is of how many sequence numbers the signature is remembered.
	recentSigs = 64
)

// identityCheck is the self-check that fails when another process with this
// host's identity is the one that counts.
const identityCheck = "identity"

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
		other = m.Time > p.since+duplicateSlack
	case m.Boot == p.window.Boot():
		other = r.seq == m.Seq && r.head != sigHead(m)
	}
	return other && m.For(self) == nil && wire.Verify(m, p.key) == nil
}

// duplicates are the hosts of which two processes are heard. The reader of
// datagrams notes them, the loop reads them.
type duplicates struct {
	mu sync.Mutex
	m  map[cluster.NodeID]duplicate
}

type duplicate struct {
	count int
	last  time.Duration
	boot  uint64 // that counts
}

func (d *duplicates) note(node cluster.NodeID, boot uint64, now time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.m[node]
	if now-v.last > duplicateGap && v.count < duplicateCount {
		v.count = 0
	}
	v.count, v.last, v.boot = min(v.count+1, duplicateCount), now, boot
	d.m[node] = v
}

// boot returns the boot of the process of node that counts, 0 if there is but
// one.
func (d *duplicates) boot(node cluster.NodeID, now time.Duration) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	v, ok := d.m[node]
	if !ok {
		return 0
	}
	if now-v.last > duplicateLife {
		delete(d.m, node)
		return 0
	}
	if v.count < duplicateCount {
		return 0
	}
	return v.boot
}

func (d *duplicates) forget(node cluster.NodeID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.m, node)
}

// judgeDuplicates tells of hosts that are newly found to run twice, and what
// the others say of this one.
func (s *Service) judgeDuplicates(now time.Duration) {
	for node, p := range s.peers {
		boot := s.duplicates.boot(node, now)
		if (boot != 0) == p.duplicate {
			continue
		}
		p.duplicate, s.dirty = boot != 0, true
		if p.duplicate {
			s.foundDuplicate(node, boot)
		}
	}
	said, twice, others, other := 0, 0, 0, uint64(0)
	for _, p := range s.peers {
		if p.beatAt == 0 || now-p.beatAt > duplicateLife {
			continue
		}
		said++
		if p.seenBoot != 0 {
			twice++
		}
		if p.seenBoot > s.o.Boot {
			others, other = others+1, max(other, p.seenBoot)
		}
	}
	most := said/2 + 1 // one host alone must not make another fail
	if was := s.ownDuplicate; was != (twice >= most) {
		s.ownDuplicate, s.dirty = !was, true
		if s.ownDuplicate {
			s.foundDuplicate(s.o.Self, max(other, s.o.Boot))
		}
	}
	reason := ""
	if others >= most {
		reason = fmt.Sprintf("another process with this host's identity took its place (boot %d, this one %d)", other, s.o.Boot)
	}
	s.setFailing(identityCheck, reason)
}

func (s *Service) foundDuplicate(node cluster.NodeID, boot uint64) {
	s.m.duplicates.Inc()
	s.log.Error().Str("peer", string(node)).Uint64("boot", boot).
		Msg("two processes use the identity of one host: only the one started last counts")
	if f := s.o.OnDuplicate; f != nil {
		s.notifier.notice(func() { f(node, boot) })
	}
}
