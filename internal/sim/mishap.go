package sim

import (
	"time"

	"github.com/skein-project/skein/lease"
)

// maxOlder is how many records a lost write can take back.
const maxOlder = 4

// crash forgets everything but the disk. A write under way may be on it.
func (n *node) crash() {
	if !n.up {
		return
	}
	n.w.tracef("%s crashes", n.id)
	if n.busy && n.w.rng.IntN(2) == 0 {
		n.store(n.todo[0])
	}
	n.up, n.paused, n.acting, n.busy = false, false, 0, false
	n.gen++
	n.w.judgeDuty()
}

// lose takes the disk back to an earlier record, as an fsync that lied does, or
// empties it. The shell finds out by the next start: its peers know more of
// its chain than it does. k chooses among the older records.
func (n *node) lose(k int) {
	n.crash()
	switch {
	case k >= 0 && k < len(n.older):
		n.disk, n.lost = n.older[k], "rolled back"
	case k == len(n.older):
		n.disk, n.lost = lease.VoteRecord{}, "missing"
	default:
		n.lost = "truncated"
		n.disk = lease.VoteRecord{}
	}
	n.older = nil
	// What was lost may go back: the host will be a new voter.
	n.promised = min(n.promised, n.disk.PromisedTerm)
	clear(n.granted)
	n.w.tracef("%s: vote record %s, promised=%d", n.id, n.lost, n.disk.PromisedTerm)
}

// abstains reports whether the host lost its vote record and is not back yet.
func (n *node) abstains() bool { return n.lost != "" || n.disk.Lost != "" }

// drain makes the host leave the lease until it is started again.
func (n *node) drain() {
	if n.up && !n.paused && !n.busy {
		n.leaving = true
		n.step(lease.StepDown{Reason: "drained", Leaving: true})
	}
}

func (n *node) pause() {
	if n.up && !n.paused {
		n.w.tracef("%s is paused", n.id)
		n.paused, n.pausedAt = true, n.w.now
		n.w.judgeDuty()
	}
}

// suspend is a pause that the shell notices by its clocks.
func (n *node) suspend() {
	if n.up && !n.paused {
		n.pause()
		n.suspended = true
	}
}

func (n *node) resume() {
	if !n.up || !n.paused {
		return
	}
	n.w.tracef("%s resumes", n.id)
	n.paused = false
	n.pausedFor += n.w.now - n.pausedAt
	n.w.judge(n)
	if n.suspended {
		// What a suspended machine does first is to notice.
		n.suspended = false
		n.notice()
	}
	n.work()
}

// leap makes the clock jump ahead, which the shell notices as well.
func (n *node) leap(d time.Duration) {
	if !n.up || n.paused {
		return
	}
	n.w.tracef("%s: the clock jumps by %s", n.id, d)
	n.offset += d
	n.timerAt = 0
	n.notice()
}

// notice reports what the clocks tell before anything else that waits, but
// not during an fsync.
func (n *node) notice() {
	if n.busy {
		n.inbox = append([]event{{kind: evSuspended, gen: n.gen}}, n.inbox...)
		return
	}
	n.step(lease.Suspended{})
}

func (n *node) selfCheck(ok bool) {
	if n.busy {
		n.w.later(10*time.Millisecond, func() { n.selfCheck(ok) })
		return
	}
	if !n.up || n.paused {
		return
	}
	n.ok = ok
	n.step(lease.SelfCheck{OK: ok, Reason: "disk"})
}

// learn makes n know that host j left for good, n itself included.
func (n *node) learn(j int) {
	n.knows[j] = true
	if j == n.i {
		n.crash()
		n.gone = true
		return
	}
	n.tellGone()
}

// tellGone tells the core who left, once it can be told.
func (n *node) tellGone() {
	if !n.up {
		return
	}
	if n.paused || n.busy {
		gen := n.gen
		n.w.later(10*time.Millisecond, func() {
			if n.gen == gen {
				n.tellGone()
			}
		})
		return
	}
	for j, o := range n.w.nodes {
		if n.knows[j] && n.up && !n.busy && !n.told[j].Gone {
			n.tell(j, lease.PeerChanged{Node: o.id, Priority: o.priority, Gone: true})
		}
	}
	if n.busy {
		n.tellGone()
	}
}
