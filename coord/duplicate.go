package coord

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/election"
	"github.com/skein-project/skein/coord/notify"
	"github.com/skein-project/skein/coord/transport"
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

// identityCheck is the self-check that fails when another process with this
// host's identity is the one that counts.
const identityCheck = "identity"

// duplicates finds hosts, this one included, of which two processes run.
type duplicates struct {
	boot     uint64 // of this start
	found    func(node cluster.NodeID, boot uint64)
	hosts    *hosts
	net      *transport.Transport
	elector  *election.Elector
	views    *views
	notifier *notify.Notifier
	count    prometheus.Counter
	log      zerolog.Logger

	own bool // the others hear two processes of this host
}

// judge reports hosts that are newly found to run twice, this one if the others say
// so.
func (d *duplicates) judge(now time.Duration) {
	for node, p := range d.hosts.peers {
		boot := d.net.Twin(node, now)
		if (boot != 0) == p.twin.found {
			continue
		}
		p.twin.found = boot != 0
		d.views.touch()
		if p.twin.found {
			d.report(node, boot)
		}
	}
	said, twice, others, other := 0, 0, 0, uint64(0)
	for _, p := range d.hosts.peers {
		if p.beatAt == 0 || now-p.beatAt > transport.TwinLife {
			continue
		}
		said++
		if p.twin.seenBoot != 0 {
			twice++
		}
		if p.twin.seenBoot > d.boot {
			others, other = others+1, max(other, p.twin.seenBoot)
		}
	}
	most := said/2 + 1 // one host alone must not make another fail
	if d.own != (twice >= most) {
		d.own = !d.own
		d.views.touch()
		if d.own {
			d.report(d.hosts.self.Node, max(other, d.boot))
		}
	}
	reason := ""
	if others >= most {
		reason = fmt.Sprintf("another process with this host's identity took its place (boot %d, this one %d)", other, d.boot)
	}
	d.elector.SetFailing(identityCheck, reason)
}

func (d *duplicates) report(node cluster.NodeID, boot uint64) {
	d.count.Inc()
	d.log.Error().Str("peer", string(node)).Uint64("boot", boot).
		Msg("two processes use the identity of one host: only the one started last counts")
	if f := d.found; f != nil {
		d.notifier.Notice(func() { f(node, boot) })
	}
}
