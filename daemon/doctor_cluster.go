package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/eventlog"
	"github.com/skein-project/skein/lease"
	"github.com/skein-project/skein/mesh"
)

// clusterFacts is what the checks of mesh and cluster judge. They look at
// values only.
type clusterFacts struct {
	view      *coord.View
	wall      time.Time
	peers     []mesh.PeerStatus
	mtu       int  // of the device
	rootKey   bool // lies on this host
	evidence  []member.Evidence
	forks     []eventlog.Fork
	timing    lease.Timing
	profile   cluster.Profile // of this host
	tolerance time.Duration
	version   string
	uptime    time.Duration

	snapshots     eventlog.SnapshotStatus
	snapshotEvery int64         // events; 0: only on request
	logCheck      *api.LogCheck // the last; nil: none
}

// settling is how long after a start of the daemon what it does not see yet
// is no finding.
func settling(t lease.Timing) time.Duration { return max(15*time.Second, t.Lease+3*t.Heartbeat) }

func (f clusterFacts) others() []coord.MemberView {
	return slices.DeleteFunc(slices.Clone(f.view.Members), func(m coord.MemberView) bool { return m.Node == f.view.Self })
}

// worse keeps the worst of several verdicts; details of the same rank join.
func worse(list []verdict, all verdict) verdict {
	rank := map[string]int{"skip": 0, "ok": 1, "warn": 2, "fail": 3}
	out := all
	for _, v := range list {
		switch have, got := rank[string(out.v)], rank[string(v.v)]; {
		case got > have:
			out = v
		case got == have && got > 1:
			out.detail += "; " + v.detail
		}
	}
	return out
}

// silentLong is after how much silence a host is worth a word, at least: with
// slow heartbeats it is three of them.
const silentLong = 10 * time.Second

// judgePeers finds hosts that this one does not reach, or that do not answer.
func judgePeers(f clusterFacts) verdict {
	others := f.others()
	if len(others) == 0 {
		return skipped("this host is alone")
	}
	silent := max(silentLong, 3*f.timing.Heartbeat)
	var list []verdict
	unheard := 0
	for _, m := range others {
		if !m.Heard || f.view.At-m.LastHeard > silent {
			unheard++
		}
		i := slices.IndexFunc(f.peers, func(p mesh.PeerStatus) bool { return p.Node == m.Node })
		switch {
		case m.Incompatible != "": // version-skew has it
		case i < 0:
			list = append(list, warning("%s is no peer of the device", m.Node).
				advise("its record contradicts another: see check evidence and `skein events --kind member_conflict`"))
		case f.peers[i].LastHandshake.IsZero():
			list = append(list, warning("%s was never reached", m.Node).
				advise("is UDP to it open, and from it to here? `skein mesh %s` shows which addresses are tried; set mesh.advertise there or mesh.peers here", m.Node))
		case !m.Heard || f.view.At-m.LastHeard > silent:
			list = append(list, warning("%s is silent", m.Node).
				advise("is its daemon running? If the host is gone for good: `skein remove %s`", m.Node))
		case !m.Answered:
			list = append(list, warning("%s is heard, and does not answer", m.Node).
				advise("packets from here do not arrive there: run `skein doctor` on %s too", m.Node))
		}
	}
	v := worse(list, good("%d of %d answer", len(others), len(others)))
	if heardNobody(f.view) && f.uptime > aloneTime {
		return warning("%s", perhapsRemoved).
			advise("is the network of this host up, is UDP open? `skein mesh NODE` shows which addresses are tried. " +
				"Members do not talk to a host that they removed: `skein members --all` on another host says whether they did")
	}
	if unheard == len(others) && len(list) > 0 {
		return v.advise("nobody is heard: is the network of this host up, is UDP open? `skein mesh NODE` shows which addresses are tried. " +
			"Or this host was removed while it was down: `skein members --all` on another host says so")
	}
	return v
}

// aloneTime is how long after its start a host that heard nobody begins to
// think that it was removed.
const aloneTime = time.Minute

// perhapsRemoved says so. Nobody can tell it: who removed it does not talk to
// it any more.
const perhapsRemoved = "nobody answers since the start: cut off, or perhaps removed while it was down"

// heardNobody reports whether there are other members of v, and none was heard
// since the start.
func heardNobody(v *coord.View) bool {
	return len(v.Members) > 1 && !slices.ContainsFunc(v.Members, func(m coord.MemberView) bool { return m.Node != v.Self && m.Heard })
}

func judgeMTU(f clusterFacts) verdict {
	if f.mtu == 0 {
		return skipped("the device says no MTU")
	}
	var list []verdict
	for _, m := range f.others() {
		if m.PathMTU > 0 && m.PathMTU < f.mtu {
			list = append(list, warning("%s gets packets of %d bytes only, the device sends up to %d", m.Node, m.PathMTU, f.mtu).
				advise("set mesh.mtu = %d here, or raise the MTU on the way", m.PathMTU))
		}
	}
	return worse(list, good("packets of %d bytes inside the mesh", f.mtu))
}

// judgeClock compares the own clock with those of the others; kernel is what
// the kernel says of it.
func judgeClock(f clusterFacts, kernel verdict) verdict {
	c := f.view.Clock
	off := c.Offset.Abs()
	switch {
	case c.Peers > 1 && off > f.tolerance:
		return failure("the clocks of %d other hosts are %s away from this one", c.Peers, off.Round(100*time.Millisecond)).
			advise("set the clock of this host: run chrony or systemd-timesyncd")
	case c.Peers > 1 && off > f.tolerance/2:
		return warning("the clocks of %d other hosts are %s away from this one", c.Peers, off.Round(100*time.Millisecond)).
			advise("run chrony or systemd-timesyncd here: from %s on messages are refused", f.tolerance)
	}
	var list []verdict
	for _, m := range f.others() {
		if m.Skew.Abs() > f.tolerance {
			list = append(list, warning("the clock of %s is %s off", m.Node, m.Skew.Abs().Round(time.Second)).
				advise("set the clock of %s: its messages are refused", m.Node))
		}
	}
	if c.JumpedAt > 0 && f.view.At-c.JumpedAt < time.Hour {
		list = append(list, warning("this clock jumped by %s %s ago", c.LastJump.Round(100*time.Millisecond), (f.view.At-c.JumpedAt).Round(time.Second)).
			advise("let a time service move it slowly; peers ignore handshakes of a clock that went back"))
	}
	if c.Peers > 0 {
		kernel.detail += fmt.Sprintf("; %s from the clocks of %d other hosts", off.Round(time.Millisecond), c.Peers)
		if kernel.v == "skip" {
			kernel = good("%s from the clocks of %d other hosts", off.Round(time.Millisecond), c.Peers)
		}
	}
	return worse(list, kernel)
}

// wantSponsors is how many hosts should be able to admit others.
const wantSponsors = 2

func sponsors(members []coord.MemberView) []string {
	var out []string
	for _, m := range members {
		if slices.Contains(m.Caps, member.CapSponsor) {
			out = append(out, string(m.Node))
		}
	}
	return out
}

func judgeSponsors(f clusterFacts) verdict {
	names := sponsors(f.view.Members)
	text := fmt.Sprintf("%d: %s", len(names), strings.Join(names, ", "))
	if len(names) >= wantSponsors {
		return good("%s", text)
	}
	return warning("%s", text).advise("when the last sponsor is lost nobody can join, be renewed or removed until the root key makes another: " +
		"the first three hosts become sponsors when they join at the host with the root key, and any member does by `skein root import FILE`")
}

func judgeRootKey(f clusterFacts) verdict {
	if !f.rootKey {
		return good("not on this host")
	}
	v := warning("the root key lies on this host")
	if len(sponsors(f.view.Members)) < wantSponsors {
		return v.advise("let a second host join first, then take it away: `skein root export --out FILE --remove`")
	}
	return v.advise("whoever has it owns the cluster: `skein root export --out FILE --remove`, and lock FILE away")
}

// certSoon is how long before its end a certificate should have been renewed:
// renewal begins when a third of the 30 days is left.
const certSoon = 7 * 24 * time.Hour

func judgeCerts(f clusterFacts) verdict {
	var list []verdict
	const hint = "a sponsor renews it while the host is connected: is a sponsor alive? See `skein members -o wide`"
	for _, m := range f.view.Members {
		if m.CertExpires == 0 {
			continue
		}
		left := time.Unix(m.CertExpires, 0).Sub(f.wall)
		own := m.Node == f.view.Self
		switch {
		case left <= 0 && own:
			list = append(list, failure("the certificate of this host expired %s ago", days(-left)).advise(hint))
		case left <= 0:
			list = append(list, warning("the certificate of %s expired %s ago; its peers keep it until it is removed", m.Node, days(-left)).
				advise("%s. If it is gone for good: `skein remove %s`", hint, m.Node))
		case left < certSoon:
			list = append(list, warning("the certificate of %s ends in %s", m.Node, days(left)).advise(hint))
		}
	}
	return worse(list, good("none ends within %s", days(certSoon)))
}

func days(d time.Duration) string {
	if d < 48*time.Hour {
		return d.Round(time.Minute).String()
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

func judgeVersions(f clusterFacts) verdict {
	var list []verdict
	for _, m := range f.others() {
		switch {
		case otherProfile(f, m): // lease-profile has it
		case m.Incompatible != "":
			list = append(list, failure("%s: %s", m.Node, m.Incompatible).advise("install the same release on all hosts"))
		case m.Version != "" && m.Version != f.version:
			list = append(list, warning("%s runs %s", m.Node, m.Version).advise("this host runs %s: bring all hosts to one release", f.version))
		}
	}
	return worse(list, good("%s on all hosts that are heard", f.version))
}

func judgeEvidence(f clusterFacts) verdict {
	if len(f.evidence) == 0 {
		return good("no records contradict each other")
	}
	var names []cluster.NodeID
	for _, e := range f.evidence {
		if !slices.Contains(names, e.Node) {
			names = append(names, e.Node)
		}
	}
	slices.Sort(names)
	return warning("contradicting records of %v", names).
		advise("a host was cloned, or its key was copied: see `skein events --kind member_conflict`; " +
			"if it is not explained, `skein remove` that host")
}

func judgeForks(f clusterFacts) verdict {
	if len(f.forks) == 0 {
		return good("no host signed two histories")
	}
	var list []verdict
	for _, fork := range f.forks {
		list = append(list, warning("%s signed two histories of its chain %s, from event %d on: none of that counts", fork.Source.Node, fork.Source, fork.Seq).
			advise("was its disk restored from a backup, or copied? Then all is well again: it goes on with a new chain. "+
				"If it is not explained, its key is in other hands: `skein remove %s`", fork.Source.Node))
	}
	return worse(list, good("no host signed two histories"))
}

// judgeLogCheck tells how the last check of the whole log went. It runs once a
// day and when somebody asks for it.
func judgeLogCheck(f clusterFacts) verdict {
	const ask = "`skein log verify --all-hosts`"
	switch c := f.logCheck; {
	case c == nil:
		return skipped("not checked since the start: it is once a day, or by %s", ask)
	case c.Error != "":
		return warning("the last check of the whole log broke off: %s", c.Error).advise("begin another one: %s", ask)
	case c.Bad() != "":
		hint := c.Result.Hint
		if hint == "" {
			hint = "restart the daemon, which folds its log again; keep a copy of the state directory for a report"
		}
		return failure("%s", c.Bad()).advise("%s", hint)
	default:
		return good("%d events are good, checked %s ago", c.Result.Events, f.wall.Sub(*c.EndedAt).Round(time.Second))
	}
}

// clusterChecks are the checks that need a running daemon.
func clusterChecks(f clusterFacts, kernelClock func() verdict) []check {
	one := func(group, name string, judge func(clusterFacts) verdict) check {
		return check{group, name, func(context.Context) verdict { return judge(f) }}
	}
	// What needs time to be true is not judged at once.
	later := func(group, name string, judge func(clusterFacts) verdict) check {
		return one(group, name, func(f clusterFacts) verdict {
			v := judge(f)
			if f.uptime < settling(f.timing) && (v.v == api.VerdictWarn || v.v == api.VerdictFail) {
				return skipped("just started: %s", v.detail)
			}
			return v
		})
	}
	return []check{
		one(groupHost, "clock-sync", func(f clusterFacts) verdict { return judgeClock(f, kernelClock()) }),
		one(groupMesh, "mtu", judgeMTU),
		later(groupMesh, "peers-both-ways", judgePeers),
		one(groupCluster, "sponsors", judgeSponsors),
		one(groupCluster, "root-key", judgeRootKey),
		one(groupCluster, "cert-expiry", judgeCerts),
		later(groupCluster, "lease-margin", judgeLease),
		later(groupCluster, "voters", judgeVoters),
		later(groupCluster, "publisher", judgePublisher),
		one(groupCluster, "lease-profile", judgeProfile),
		one(groupCluster, "identity", judgeIdentity),
		later(groupCluster, "local-health", judgeLocalHealth),
		one(groupCluster, "version-skew", judgeVersions),
		one(groupCluster, "evidence", judgeEvidence),
		one(groupCluster, "log-forks", judgeForks),
		one(groupCluster, "log-snapshots", judgeSnapshots),
		one(groupCluster, "log-verify", judgeLogCheck),
	}
}
