package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/eventlog"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/status"
)

// backend answers the status socket out of the running node.
type backend struct{ *node }

var _ status.Backend = backend{}

// Header implements status.ClusterReader.
func (b backend) Header() api.Header {
	return api.Header{APIVersion: api.APIVersion, Node: b.id.Node, ObservedAt: time.Now().UTC(), Position: b.position()}
}

func (n *node) position() uint64 {
	var applied uint64
	n.events.View(func(s *state.State) { applied, _, _ = s.Counts() })
	return applied
}

// Status implements status.ClusterReader.
func (b backend) Status(context.Context) (api.Status, error) {
	v := b.coord.View()
	st := api.Status{
		Cluster: b.clusterName(), Version: b.version, Role: v.Lease.Role, Term: v.Lease.Term,
		UptimeSeconds: time.Since(b.started).Seconds(), Lease: b.leaseSummary(v), Mesh: b.meshSummary(v),
		LocalHealth: v.LocalHealth,
		Reasons:     []string{},
	}
	for _, m := range v.Members {
		st.Members.Total++
		switch m.Health {
		case cluster.Joining:
			st.Members.Joining++
		case cluster.Alive:
			st.Members.Alive++
		case cluster.Suspect:
			st.Members.Suspect++
		case cluster.Dead:
			st.Members.Dead++
		}
		// Hosts that are not heard yet are no fault of a daemon that just started.
		if m.Health != cluster.Alive && (m.Health != cluster.Joining || time.Since(b.started) >= settling(b.timing)) {
			st.Reasons = append(st.Reasons, fmt.Sprintf("%s %s", m.Node, m.Health))
		}
		if m.Incompatible != "" {
			st.Reasons = append(st.Reasons, fmt.Sprintf("%s: %s", m.Node, m.Incompatible))
		}
	}
	st.Members.Left = len(b.roster.Load().retired)
	if heardNobody(v) && time.Since(b.started) > aloneTime {
		st.Reasons = append(st.Reasons, perhapsRemoved)
	}
	if v.Lease.Holder == "" {
		st.Reasons = append(st.Reasons, "no holder known")
	}
	for _, id := range st.Lease.Abstaining {
		st.Reasons = append(st.Reasons, fmt.Sprintf("%s abstains: %s", id, abstains(v, id)))
	}
	if d := b.events.Disk(); d.State == eventlog.DiskLow || d.State == eventlog.DiskFull {
		st.Reasons = append(st.Reasons, "event log: "+roomOf(d))
	}
	st.Reasons = append(st.Reasons, b.repairReasons()...)
	for _, name := range sortedKeys(v.Failing) {
		st.Reasons = append(st.Reasons, name+": "+v.Failing[name])
	}
	switch {
	case b.stopping.Load():
		st.State = api.StateStopping
	case b.Ready() != nil && !b.wasReady.Load():
		st.State = api.StateJoining
	case len(st.Reasons) > 0:
		st.State = api.StateDegraded
	default:
		st.State = api.StateOK
	}
	st.Log = b.logSummary()
	st.Worker = b.workerSummary()
	b.events.View(func(s *state.State) {
		for _, j := range s.Jobs() {
			switch j.State {
			case cluster.JobPending, cluster.JobQueued:
				st.Jobs.Pending++
			case cluster.JobRunning, cluster.JobCancelling:
				st.Jobs.Running++
			case cluster.JobCompleted:
				st.Jobs.Completed++
			case cluster.JobFailed:
				st.Jobs.Failed++
			case cluster.JobPartial:
				st.Jobs.Partial++
			case cluster.JobCancelled:
				st.Jobs.Cancelled++
			case cluster.JobTimeout:
				st.Jobs.Timeout++
			}
		}
	})
	return st, nil
}

func (n *node) clusterName() string {
	if n.id.ClusterName != "" {
		return n.id.ClusterName
	}
	return n.id.Cluster.String()
}

func (n *node) logSummary() api.LogSummary {
	sum := api.LogSummary{StateHash: n.stateHash()}
	for _, h := range n.events.Heads() {
		sum.Sources++
		sum.Events += h.Seq
	}
	sum.SizeBytes = uint64(max(0, n.events.Size()))
	st := n.events.Snapshots()
	sum.ReclaimableBytes = uint64(max(0, st.Reclaimable))
	if len(st.Kept) > 0 {
		s := apiSnapshot(st.Kept[len(st.Kept)-1])
		sum.Snapshot = &s
	}
	for _, f := range n.events.Forks() {
		sum.Forked = append(sum.Forked, f.Source)
	}
	return sum
}

// stateHash hashes the fold; the result is kept for as long as the log's
// digest stays the same.
func (n *node) stateHash() cluster.Hash {
	digest := n.events.Digest()
	n.hashMu.Lock()
	defer n.hashMu.Unlock()
	if n.hashOf != digest || n.hash.IsZero() {
		n.events.View(func(s *state.State) { n.hash = s.Hash() })
		n.hashOf = digest
	}
	return n.hash
}

// Members implements status.ClusterReader.
func (b backend) Members(_ context.Context, all bool) (api.Members, error) {
	v := b.coord.View()
	own := b.ownEvents()
	out := api.Members{Members: make([]api.Member, 0, len(v.Members))}
	for _, m := range v.Members {
		out.Members = append(out.Members, b.apiMember(v, m, own))
	}
	if all {
		for _, r := range b.roster.Load().retired {
			out.Members = append(out.Members, retiredMember(r))
		}
		slices.SortStableFunc(out.Members, func(x, y api.Member) int { return strings.Compare(string(x.Node), string(y.Node)) })
	}
	return out, nil
}

func (n *node) apiMember(v *coord.View, m coord.MemberView, own uint64) api.Member {
	self := m.Node == n.id.Node
	am := api.Member{
		Node: m.Node, Self: self, Addr: addrText(m.IP4), Addr6: addrText(m.IP6), State: m.Health, Role: m.Role,
		Voter: v.Lease.Config.Has(m.Node), Publisher: m.Publishing, Term: m.Term, Version: m.Version, Zone: m.Zone, Priority: m.Priority,
		Witness: m.Witness, Stale: m.Stale, NAT: m.NAT, Endpoints: endpointTexts(m.Endpoints),
		Sponsor: slices.Contains(m.Caps, member.CapSponsor),
	}
	if m.CertExpires != 0 {
		am.CertExpiresAt = new(time.Unix(m.CertExpires, 0).UTC())
	}
	switch {
	case self:
		am.Path = "self"
	case m.Heard:
		am.Path = cmp.Or(m.Path, "direct")
		am.SeenSeconds = new((n.now() - m.LastHeard).Seconds())
		am.SkewSeconds = new(m.Skew.Seconds())
		am.LagEvents = new(own - min(own, m.LogEvents))
		if m.RTT > 0 {
			am.RTTSeconds = new(m.RTT.Seconds())
		}
	}
	return am
}

// retiredMember shows a host that is a member no more.
func retiredMember(r member.Retired) api.Member {
	return api.Member{
		Node: r.Node, Addr: addrText(r.Cert.IP4), Addr6: addrText(r.Cert.IP6), State: cluster.Left, Endpoints: []string{},
		Removed: !r.Left, GoneAt: new(r.At), Reason: r.Reason,
	}
}

// addrText is empty for an address that a host does not have.
func addrText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

func endpointTexts(list []netip.AddrPort) []string {
	out := make([]string, 0, len(list))
	for _, e := range list {
		out = append(out, e.String())
	}
	return out
}

func (n *node) ownEvents() uint64 {
	var total uint64
	for _, h := range n.events.Heads() {
		total += h.Seq
	}
	return total
}

// Void implements status.EventReader.
func (b backend) Void(e cluster.Event) (void bool) {
	b.events.View(func(s *state.State) { void = s.Void(e) })
	return void
}

// Events implements status.EventReader.
func (b backend) Events(ctx context.Context, at api.Cursor, since time.Time) iter.Seq2[cluster.Event, error] {
	return func(yield func(cluster.Event, error) bool) {
		for e, err := range b.events.After(ctx, at, eventlog.Filter{Since: since}) {
			if gone, ok := errors.AsType[*eventlog.CompactedError](err); ok {
				p := api.Errorf(api.CodeCompacted, "%v", gone).WithHint("go on with --since %s", gone.Oldest)
				p.Cursor, err = gone.Oldest.String(), p
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Oldest implements status.EventReader.
func (b backend) Oldest() api.Cursor { return b.events.Oldest() }

// Changed implements status.EventReader.
func (b backend) Changed() <-chan struct{} { return b.events.Changed() }

// PutArtefact implements status.ArtefactStore.
func (b backend) PutArtefact(ctx context.Context, r io.Reader) (cluster.Hash, int64, error) {
	return b.putArtefact(ctx, r)
}

// Healthy implements status.Probe.
func (b backend) Healthy() error { return b.events.Err() }

// Ready implements status.Probe: this host is in a current view once it knows
// a holder.
func (b backend) Ready() error {
	if b.stopping.Load() {
		return fmt.Errorf("%s is stopping", b.id.Node)
	}
	if v := b.coord.View(); v.Lease.Holder == "" {
		return fmt.Errorf("%s knows no holder", b.id.Node)
	}
	b.wasReady.Store(true)
	return nil
}

// Config implements status.ClusterReader.
func (b backend) Config(context.Context) (api.Config, error) {
	out := api.Config{Entries: []api.ConfigEntry{}}
	for _, e := range b.running() {
		out.Entries = append(out.Entries, api.ConfigEntry{Key: e.Key, Value: e.Value, Origin: string(e.Origin), Reload: api.ReloadOf(e.Live)})
	}
	return out, nil
}
