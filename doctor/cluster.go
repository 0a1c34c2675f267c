package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/eventlog/snapshots"
	"github.com/skein-project/skein/eventlog/stamps"
	"github.com/skein-project/skein/eventlog/wire"
	"github.com/skein-project/skein/lease"
	"github.com/skein-project/skein/mesh"
)

// Cluster holds the facts that the checks of mesh, cluster and event log judge.
type Cluster struct {
	View      *coord.View
	Wall      time.Time
	Peers     []mesh.PeerStatus
	MTU       int  // of the device
	RootKey   bool // it is on this host
	Evidence  []member.Evidence
	Chains    Chains
	Timing    lease.Timing
	Profile   cluster.Profile // of this host
	Tolerance time.Duration
	Daemon

	Snapshots Snapshots
	LogCheck  *api.LogCheck // the last one that ended; nil: none has
	Starved   []StarvedJob  // in the order of submission
	Onion     Onion
}

// Daemon is the one that runs on this host.
type Daemon struct {
	Version string
	Uptime  time.Duration
	Groups  []WaitingGroup // of its configuration
	// Overload is how loaded its host is, and who else is above normal.
	Overload api.Overload
}

// Chains are those of the event log with which something is wrong: they have two
// histories, or run ahead of this host's clock.
type Chains struct {
	Forks []wire.Fork
	Ahead []stamps.Chain
}

// Snapshots says how far the log is held in snapshots, and how often one is due.
type Snapshots struct {
	snapshots.Status
	Every int64 // events; 0: only on request
}

// StarvedJob is an open job that no worker may run, and why.
type StarvedJob struct {
	ID   job.ID
	Why  string
	Hint string // what to do about it; empty: not known
}

// Settled reports whether a daemon has run long enough for what it has not seen
// yet to be a finding.
func Settled(t lease.Timing, uptime time.Duration) bool {
	return uptime >= max(15*time.Second, t.Lease+3*t.Heartbeat)
}

func (f Cluster) others() []coord.MemberView {
	return slices.DeleteFunc(slices.Clone(f.View.Members), func(m coord.MemberView) bool { return m.Node == f.View.Self })
}

// worse returns the worst of several verdicts; the details of those of the same
// rank are joined.
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

// silentLong is how long a host must at least be silent to be mentioned; with
// slow heartbeats it is three of them.
const silentLong = 10 * time.Second

// judgePeers finds hosts that this one cannot reach, or that do not answer.
func judgePeers(f Cluster) verdict {
	others := f.others()
	if len(others) == 0 {
		return skipped("this host is alone")
	}
	var list []verdict
	awaited, unheard := 0, 0                   // of those that did not say that they stop
	var absent, unreached, mute, gone []string // by what to do about them
	for _, m := range others {
		if !m.Stopped {
			awaited++
			if silent(f, m) {
				unheard++
			}
		}
		i := slices.IndexFunc(f.Peers, func(p mesh.PeerStatus) bool { return p.Node == m.Node })
		switch {
		case m.Incompatible != "": // version-skew has it
		case i < 0:
			list, absent = append(list, warning("%s is no peer of the device", m.Node)), append(absent, string(m.Node))
		case m.Stopped:
			list, gone = append(list, warning("%s was stopped", m.Node)), append(gone, string(m.Node))
		case f.Peers[i].LastHandshake.IsZero():
			list, unreached = append(list, warning("%s was never reached", m.Node)), append(unreached, string(m.Node))
		case silent(f, m):
			list, gone = append(list, warning("%s is silent", m.Node)), append(gone, string(m.Node))
		case !m.Answered:
			list, mute = append(list, warning("%s is heard, and does not answer", m.Node)), append(mute, string(m.Node))
		}
	}
	v := worse(list, good("%d of %d answer", len(others), len(others)))
	v.hint = adviceOnPeers(absent, unreached, mute, gone)
	if why := CutOff(f.View, f.Uptime); why != "" {
		return warning("%s", why).
			advise("is the network of this host up, is UDP open? `skein mesh NODE` shows which addresses are tried. " +
				"Members do not talk to a host that they removed: `skein members --all` on another host says whether they did")
	}
	if awaited > 0 && unheard == awaited && len(list) > 0 {
		return v.advise("nobody is heard: is the network of this host up, is UDP open? `skein mesh NODE` shows which addresses are tried. " +
			"Or this host was removed while it was down: `skein members --all` on another host says so")
	}
	return v
}

// namedHosts is how many hosts a hint names.
const namedHosts = 8

// adviceOnPeers says what to do about each kind of hosts of which something is wrong.
func adviceOnPeers(absent, unreached, mute, gone []string) string {
	var out []string
	each := func(nodes []string, command string) string {
		var list []string
		for _, n := range nodes[:min(len(nodes), namedHosts)] {
			list = append(list, "`"+command+" "+n+"`")
		}
		if more := len(nodes) - namedHosts; more > 0 {
			list = append(list, fmt.Sprintf("and %d more", more))
		}
		return strings.Join(list, ", ")
	}
	if len(gone) == 1 {
		out = append(out, "is its daemon running? If the host is gone for good: "+each(gone, "skein remove"))
	} else if len(gone) > 1 {
		out = append(out, "are their daemons running? Each host that is gone for good: "+each(gone, "skein remove"))
	}
	if len(unreached) > 0 {
		out = append(out, "is UDP open to what was never reached, and from there to here? "+each(unreached, "skein mesh")+
			" shows which addresses are tried; set mesh.advertise there or mesh.peers here")
	}
	if len(mute) > 0 {
		list := strings.Join(mute[:min(len(mute), namedHosts)], ", ")
		if more := len(mute) - namedHosts; more > 0 {
			list += fmt.Sprintf(" and %d more", more)
		}
		out = append(out, "packets from here do not arrive there: run `skein doctor` on "+list+" too")
	}
	if len(absent) > 0 {
		out = append(out, "the record of what is no peer contradicts another: see check evidence and `skein events --kind member_conflict`")
	}
	return strings.Join(out, ". ")
}

// silent reports whether too little is heard of m: in time, or for the status to
// call it alive.
func silent(f Cluster, m coord.MemberView) bool {
	return !m.Heard || f.View.At-m.LastHeard > max(silentLong, 3*f.Timing.Heartbeat) || m.Health == cluster.Suspect || m.Health == cluster.Dead
}

// aloneTime is how long after its start a host that has heard nobody considers
// that it may have been removed.
const aloneTime = time.Minute

// perhapsRemoved is all that such a host can say: members do not talk to a host
// that they removed, so nobody tells it.
const perhapsRemoved = "nobody answers since the start: cut off, or perhaps removed while it was down"

// CutOff returns what to say of a host that has heard no other member since it
// started, a while ago; empty if it is not such a host.
func CutOff(v *coord.View, uptime time.Duration) string {
	heard := func(m coord.MemberView) bool { return m.Node != v.Self && m.Heard }
	if uptime <= aloneTime || len(v.Members) < 2 || slices.ContainsFunc(v.Members, heard) {
		return ""
	}
	return perhapsRemoved
}

// judgeEndpoints finds keys that are seen at two places in turn.
func judgeEndpoints(f Cluster) verdict {
	var list []verdict
	for _, m := range f.View.Members {
		if len(m.Flaps) != 2 {
			continue
		}
		list = append(list, warning("%s is seen at %s and at %s in turn", m.Node, m.Flaps[0], m.Flaps[1]).
			advise("this key may be in use elsewhere: rotate it, `skein mesh rotate` on %s. Whoever has it may have the rest of the state directory: "+
				"then `skein remove` the host and let it join anew. A host with two uplinks is seen so as well: name both in its mesh.advertise", m.Node))
	}
	return worse(list, good("no key is seen at two places in turn"))
}

func judgeMTU(f Cluster) verdict {
	if f.MTU == 0 {
		return skipped("the device says no MTU")
	}
	var list []verdict
	for _, m := range f.others() {
		if m.PathMTU > 0 && m.PathMTU < f.MTU {
			list = append(list, warning("%s gets packets of %d bytes only, the device sends up to %d", m.Node, m.PathMTU, f.MTU).
				advise("set mesh.mtu = %d here, or raise the MTU on the way", m.PathMTU))
		}
	}
	return worse(list, good("packets of %d bytes inside the mesh", f.MTU))
}

// judgeClock compares this host's clock with those of the others; kernel is what
// the kernel says about it.
func judgeClock(f Cluster, kernel verdict) verdict {
	c := f.View.Clock
	off := c.Offset.Abs()
	switch {
	case c.Peers > 1 && off > f.Tolerance:
		return failure("the clocks of %d other hosts are %s away from this one", c.Peers, off.Round(100*time.Millisecond)).
			advise("set the clock of this host: run chrony or systemd-timesyncd")
	case c.Peers > 1 && off > f.Tolerance/2:
		return warning("the clocks of %d other hosts are %s away from this one", c.Peers, off.Round(100*time.Millisecond)).
			advise("run chrony or systemd-timesyncd here: from %s on messages are refused", f.Tolerance)
	}
	var list []verdict
	for _, m := range f.others() {
		if m.Skew.Abs() > f.Tolerance {
			list = append(list, warning("the clock of %s is %s off", m.Node, m.Skew.Abs().Round(time.Second)).
				advise("set the clock of %s: its messages are refused", m.Node))
		}
	}
	if c.JumpedAt > 0 && f.View.At-c.JumpedAt < time.Hour {
		list = append(list, warning("this clock jumped by %s %s ago", c.LastJump.Round(100*time.Millisecond), (f.View.At-c.JumpedAt).Round(time.Second)).
			advise("let a time service move it slowly; peers ignore handshakes of a clock that went back"))
	}
	if c.Peers > 0 {
		apart := fmt.Sprintf("%s from the clocks of %s", off.Round(time.Millisecond), others(c.Peers))
		kernel.detail += "; " + apart
		if kernel.v == "skip" {
			kernel = good("%s", apart)
		}
	}
	return worse(list, kernel)
}

// others counts other hosts.
func others(n int) string {
	if n == 1 {
		return "1 other host"
	}
	return fmt.Sprintf("%d other hosts", n)
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

func judgeSponsors(f Cluster) verdict {
	names := sponsors(f.View.Members)
	text := fmt.Sprintf("%d: %s", len(names), strings.Join(names, ", "))
	switch {
	case len(names) >= wantSponsors:
		return good("%s", text)
	case len(f.others()) == 0:
		return good("%s; the next two hosts that join here become sponsors too", text)
	}
	return warning("%s", text).advise("when the last sponsor is lost nobody can join, be renewed or removed until the root key makes another: " +
		"the first three hosts become sponsors when they join at the host with the root key, and any member does by `skein root import FILE`")
}

func judgeRootKey(f Cluster) verdict {
	if !f.RootKey {
		return good("not on this host")
	}
	if len(f.others()) == 0 {
		return good("on this host, which is the only one: take it away when others have joined")
	}
	v := warning("the root key lies on this host")
	if len(sponsors(f.View.Members)) < wantSponsors {
		return v.advise("let a second host join first, then take it away: `skein root export --out FILE --remove`")
	}
	return v.advise("whoever has it owns the cluster: `skein root export --out FILE --remove`, and lock FILE away")
}

// certSoon is how long before its end a certificate should have been renewed:
// renewal begins when a third of the 30 days is left.
const certSoon = 7 * 24 * time.Hour

func judgeCerts(f Cluster) verdict {
	var list []verdict
	const hint = "a sponsor renews it while the host is connected: is a sponsor alive? See `skein members -o wide`"
	for _, m := range f.View.Members {
		if m.CertExpires == 0 {
			continue
		}
		left := time.Unix(m.CertExpires, 0).Sub(f.Wall)
		own := m.Node == f.View.Self
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

// judgeJobs finds jobs that wait because no worker may run them.
func judgeJobs(f Cluster) verdict {
	if len(f.Starved) == 0 {
		return good("no job lacks a worker")
	}
	first := f.Starved[0]
	v := warning("job %s waits: %s", first.ID, first.Why)
	if n := len(f.Starved); n > 1 {
		v = warning("%d jobs wait for a worker, the first is %s: %s", n, first.ID, first.Why)
	}
	hint := first.Hint
	if hint == "" {
		hint = "start a worker that has what it asks for: its executor, zones and permission"
	}
	return v.advise("%s. `skein job status %s` shows it, `skein job stop %s` ends it", hint, first.ID, first.ID)
}

// WaitingGroup is a group that the configuration would take more than half of the
// members from.
type WaitingGroup struct {
	Name string
	Left int    // members that it would have
	From string // the key of the configuration
}

// judgeGroups finds groups that wait for an operator.
func judgeGroups(f Cluster) verdict {
	if len(f.Groups) == 0 {
		return good("none waits for an operator")
	}
	var list []string
	for _, g := range f.Groups {
		list = append(list, fmt.Sprintf("%s (%d left, %s)", g.Name, g.Left, g.From))
	}
	return warning("more than half of the members would leave: %s", strings.Join(list, ", ")).
		advise("if that is right: `skein group set --force %s` on this host; else mend the source, or name the members: `skein group set %[1]s MEMBER...`", f.Groups[0].Name)
}

func judgeVersions(f Cluster) verdict {
	var list []verdict
	for _, m := range f.others() {
		switch {
		case otherProfile(f, m): // lease-profile has it
		case m.Incompatible != "":
			list = append(list, failure("%s: %s", m.Node, m.Incompatible).advise("install the same release on all hosts"))
		case m.Version != "" && m.Version != f.Version:
			list = append(list, warning("%s runs %s", m.Node, m.Version).advise("this host runs %s: bring all hosts to one release", f.Version))
		}
	}
	return worse(list, good("%s on all hosts that are heard", f.Version))
}

func judgeEvidence(f Cluster) verdict {
	if len(f.Evidence) == 0 {
		return good("no records contradict each other")
	}
	var names []cluster.NodeID
	for _, e := range f.Evidence {
		if !slices.Contains(names, e.Node) {
			names = append(names, e.Node)
		}
	}
	slices.Sort(names)
	return warning("contradicting records of %v", names).
		advise("a host was cloned, or its key was copied: see `skein events --kind member_conflict`; " +
			"if it is not explained, `skein remove` that host")
}

// clusterChecks returns the checks that need a running daemon.
func clusterChecks(f Cluster, kernelClock func() verdict) []check {
	one := func(group, name string, judge func(Cluster) verdict) check {
		return check{group, name, func(context.Context) verdict { return judge(f) }}
	}
	// later is for what becomes true only some time after a start.
	later := func(group, name string, judge func(Cluster) verdict) check {
		return one(group, name, func(f Cluster) verdict {
			v := judge(f)
			if !Settled(f.Timing, f.Uptime) && (v.v == api.VerdictWarn || v.v == api.VerdictFail) {
				return skipped("just started: %s", v.detail)
			}
			return v
		})
	}
	return []check{
		one(groupHost, "clock-sync", func(f Cluster) verdict { return judgeClock(f, kernelClock()) }),
		one(groupMesh, "mtu", judgeMTU),
		one(groupMesh, "endpoints", judgeEndpoints),
		later(groupMesh, "peers-both-ways", judgePeers),
		later(groupHost, "tor", judgeTor),
		one(groupCluster, "sponsors", judgeSponsors),
		one(groupCluster, "root-key", judgeRootKey),
		one(groupCluster, "cert-expiry", judgeCerts),
		later(groupCluster, "lease-margin", judgeLease),
		later(groupCluster, "voters", judgeVoters),
		later(groupCluster, "publisher", judgePublisher),
		later(groupCluster, "zones", judgeZoneHosts),
		one(groupCluster, "lease-profile", judgeProfile),
		one(groupCluster, "identity", judgeIdentity),
		later(groupCluster, "local-health", judgeLocalHealth),
		one(groupCluster, "overload", judgeOverload),
		one(groupCluster, "jobs", judgeJobs),
		one(groupCluster, "groups", judgeGroups),
		one(groupCluster, "onion-hosts", judgeOnionHosts),
		later(groupCluster, "onion-keys", judgeOnionKeys),
		later(groupCluster, "onion-publisher", judgeOnionPublisher),
		one(groupCluster, "version-skew", judgeVersions),
		one(groupCluster, "evidence", judgeEvidence),
		one(groupCluster, "log-forks", judgeForks),
		one(groupCluster, "log-ahead", judgeAhead),
		one(groupCluster, "log-snapshots", judgeSnapshots),
		one(groupCluster, "log-verify", judgeLogCheck),
	}
}
