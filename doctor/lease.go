package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
)

// judgeLease judges how much more may fail before the lease is lost.
func judgeLease(f Cluster) verdict {
	l := f.View.Lease
	cfg := l.Config
	if cfg.IsZero() && l.Holder == "" {
		return failure("nobody holds the lease, and who votes is not known here").advise("the holder must be reached once: see `skein mesh`")
	}
	if cfg.IsZero() {
		return skipped("the voters are not known yet")
	}
	alive, rtts := 0, []time.Duration{}
	var down []cluster.NodeID
	for _, v := range cfg.Voters {
		m, found := f.View.Member(v)
		switch {
		case !found || m.Health != cluster.Alive:
			down = append(down, v)
			continue
		case v != f.View.Self:
			rtts = append(rtts, m.RTT)
		}
		alive++
	}
	switch {
	case l.Holder == "" && alive >= cfg.Majority() && slices.ContainsFunc(f.others(), func(m coord.MemberView) bool { return otherProfile(f, m) }):
		return failure("no lease is visible here, of hosts with another lease.profile").advise("see check lease-profile")
	case l.Holder == "":
		return noHolder(f, alive, down)
	}
	var list []verdict
	if l.Until == 0 && cfg.Has(f.View.Self) && l.Abstaining == "" {
		list = append(list, warning("%s says that it holds term %d, and its renewals do not reach this host, which votes", l.Holder, l.Term).
			advise("`skein mesh %s` shows the way there, the log of this host what it refuses: does an older release run there?", l.Holder))
	}
	if need := cfg.Majority(); cfg.Mode == cluster.ModeQuorum && alive == need && need < len(cfg.Voters) {
		list = append(list, warning("%d of %d voters are alive: one more lost, and nobody holds the lease", alive, len(cfg.Voters)).
			advise("bring the others back, or remove those that are gone for good: `skein remove NODE`"))
	}
	slices.Sort(rtts)
	budget := f.Timing.Lease - f.Timing.Renew - f.Timing.ActMargin
	if i := cfg.Majority() - 2; i >= 0 && i < len(rtts) && 4*rtts[i] > budget {
		list = append(list, warning("a renewal takes %s, %s are left for it", rtts[i], budget).
			advise("choose a slower lease.profile on all hosts"))
	}
	return worse(list, good("%s holds term %d, %d of %d voters alive", l.Holder, l.Term, alive, len(cfg.Voters)))
}

// noHolder says why nobody holds the lease, and what helps. Voters that are not heard
// may well live, behind a cut: to give them up for lost is the last that it says.
func noHolder(f Cluster, alive int, down []cluster.NodeID) verdict {
	cfg := f.View.Lease.Config
	if alive >= cfg.Majority() {
		return failure("nobody holds the lease, although %d of %d voters are alive", alive, len(cfg.Voters)).
			advise("`skein lease -o wide` on each voter says what keeps it from standing")
	}
	v := failure("nobody holds the lease: %d of %d voters are alive, %d must be%s", alive, len(cfg.Voters), cfg.Majority(), unheardText(f.View, down))
	cut := fmt.Sprintf("%s may live behind a cut of the network, and go on without this host: is its network up, is UDP open (`skein mesh %s`), "+
		"what does `skein status` say there? If they do not run, start them", strings.Join(texts(down), " and "), down[0])
	if len(cfg.Voters) == 2 {
		return v.advise("%s. Two voters in mode quorum stop when either is lost: a third host, a witness at least, would keep them going", cut)
	}
	return v.advise("%s. Only if they are lost for good: `skein lease recover`", cut)
}

// unheardText says for how long each of nodes has not been heard.
func unheardText(v *coord.View, nodes []cluster.NodeID) string {
	var out strings.Builder
	for _, n := range nodes {
		switch m, ok := v.Member(n); {
		case !ok:
			fmt.Fprintf(&out, "; %s is no longer a member", n)
		case !m.Heard:
			fmt.Fprintf(&out, "; %s not heard since the start", n)
		case v.At > m.LastHeard:
			fmt.Fprintf(&out, "; %s not heard for %s", n, (v.At - m.LastHeard).Round(time.Second))
		}
	}
	return out.String()
}

// judgeVoters judges whether the voters are as many, as spread out and as fit as
// they should be.
func judgeVoters(f Cluster) verdict {
	l := f.View.Lease
	cfg := l.Config
	if cfg.IsZero() {
		return skipped("the voters are not known yet")
	}
	n := len(cfg.Voters)
	list := abstentions(f.View)
	for _, id := range cfg.Voters {
		if !isMember(f.View, id) {
			list = append(list, warning("%s votes and is no longer a member", id).
				advise("the holder takes it out as soon as a majority agrees: are enough voters alive?"))
		}
	}
	switch {
	case n == 2 && cfg.Mode == cluster.ModeQuorum:
		list = append(list, warning("two voters in mode quorum: the loss of either stops the scheduling").
			advise("let a third host vote, at least a witness (node.witness = true), or `skein lease voters mode auto`"))
	case n%2 == 0 && n > 2 && cfg.Mode == cluster.ModeQuorum:
		list = append(list, warning("%d voters bear the loss of %d, as %d would", n, n-cfg.Majority(), n-1).
			advise("an odd number is better: add a host, or `skein lease voters set` one less"))
	}
	if want := l.Target; len(want) > n {
		list = append(list, warning("%d voters are wanted, %d so far", len(want), n).
			advise("`skein lease voters` shows who is missing, and why"))
	}
	if v, ok := judgeZones(f); ok {
		list = append(list, v)
	}
	return worse(list, good("%d, mode %s: %s", n, cfg.Mode, nodeList(cfg.Voters)))
}

// abstentions lists the voters that grant nothing.
func abstentions(v *coord.View) []verdict {
	var list []verdict
	for _, id := range v.Abstaining() {
		d := warning("%s abstains: %s", id, v.Abstains(id))
		if len(v.Lease.Config.Voters) < 3 {
			list = append(list, d.advise("too few voters are left to admit it again: see docs/operations.md, Lost votes"))
			continue
		}
		list = append(list, d.advise("the holder admits it again by itself, once a majority without it agrees; ask why its disk lost it"))
	}
	return list
}

// judgeZones finds voters that would all be lost with one zone although hosts
// elsewhere could vote.
func judgeZones(f Cluster) (verdict, bool) {
	cfg := f.View.Lease.Config
	in := map[string]int{}
	known := map[string]bool{}
	for _, m := range f.View.Members {
		if m.Zone == "" {
			continue
		}
		known[m.Zone] = true
		if cfg.Has(m.Node) {
			in[m.Zone]++
		}
	}
	if len(cfg.Voters) < 3 || cfg.Mode != cluster.ModeQuorum {
		return verdict{}, false
	}
	for _, zone := range slices.Sorted(maps.Keys(in)) {
		switch {
		case in[zone] == len(cfg.Voters):
			return warning("all voters are in zone %s", zone).
				advise("the loss of that zone stops the scheduling: let hosts of others vote"), true
		case in[zone] >= cfg.Majority() && len(known) >= 3:
			return warning("%d of %d voters are in zone %s", in[zone], len(cfg.Voters), zone).
				advise("the loss of that zone stops the scheduling: `skein lease voters auto` spreads them, if hosts elsewhere are able"), true
		}
	}
	return verdict{}, false
}

// judgePublisher judges who publishes, and whether for lack of a lease.
func judgePublisher(f Cluster) verdict {
	v := f.View
	if v.Publisher == "" {
		return warning("nobody is known to publish").advise("a host that is alive, no witness and eligible must be there: see `skein members -o wide`")
	}
	var list []verdict
	if v.Lease.PublishWhy != api.PublishLease {
		list = append(list, warning("%s publishes, and no lease is visible here", v.Publisher).
			advise("a majority of the voters is out of sight, or has another lease.profile: another part of the cluster may publish too, which does no harm. Repair the network, or see check lease-margin"))
	}
	for _, m := range f.others() {
		if m.Publishing && m.Node != v.Publisher && m.Health == cluster.Alive {
			list = append(list, warning("%s publishes beside %s", m.Node, v.Publisher).
				advise("harmless, and over within seconds unless the two do not hear each other: `skein mesh` on both"))
		}
	}
	return worse(list, good("%s, as the holder", v.Publisher))
}

// otherProfile reports whether m is refused because of its profile.
func otherProfile(f Cluster, m coord.MemberView) bool {
	return m.Incompatible != "" && m.Profile != "" && m.Profile != f.Profile
}

// judgeProfile finds hosts with another lease.profile, which cannot share a lease.
func judgeProfile(f Cluster) verdict {
	same := 1
	var differ []string
	for _, m := range f.others() {
		switch {
		case otherProfile(f, m):
			differ = append(differ, fmt.Sprintf("%s (%s)", m.Node, m.Profile))
		case m.Profile == f.Profile:
			same++
		}
	}
	who := strings.Join(differ, ", ")
	switch {
	case len(differ) == 0:
		return good("%s on all hosts that are heard", f.Profile)
	case same <= len(differ):
		return failure("this host has lease.profile %s, others have another: %s", f.Profile, who).
			advise("set lease.profile here to that of the others and restart: until then this host takes no part in the lease")
	}
	return failure("lease.profile %s here and on %d hosts in all, another on %s", f.Profile, same, who).
		advise("set it to %s there and restart: until then those hosts take no part in the lease", f.Profile)
}

// judgeIdentity finds identities that two processes use.
func judgeIdentity(f Cluster) verdict {
	var list []verdict
	for _, m := range f.View.Members {
		switch {
		case !m.Duplicate:
		case m.Node == f.View.Self:
			list = append(list, failure("another process runs with the identity of this host").
				advise("this disk was copied, or is the copy: stop one of the two for good, and let its host join anew with an empty state directory"))
		default:
			list = append(list, failure("two processes run with the identity of %s", m.Node).
				advise("a disk of it was copied: stop one of the two for good, and let its host join anew with an empty state directory"))
		}
	}
	return worse(list, good("each host is heard once"))
}

// doubtful is the local health from which on it is reported: a packet lost now
// and then raises it by one.
const doubtful = 3

// judgeLocalHealth reports a host that doubts itself and so gives others more time
// before it suspects them.
func judgeLocalHealth(f Cluster) verdict {
	if h := f.View.LocalHealth; h >= doubtful {
		return warning("this host misses answers that others get: %d of 8", h).
			advise("is its processor or its network overloaded? It waits longer before it suspects others")
	}
	return good("%d of 8", f.View.LocalHealth)
}

// isMember reports whether id is a member of v.
func isMember(v *coord.View, id cluster.NodeID) bool {
	_, ok := v.Member(id)
	return ok
}

// nodeList formats ids for a sentence.
func nodeList(ids []cluster.NodeID) string { return strings.Join(texts(ids), ", ") }

func texts(ids []cluster.NodeID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(id)
	}
	return out
}
