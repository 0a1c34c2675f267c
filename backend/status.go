package backend

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/bundle"
	"github.com/skein-project/skein/backend/convert"
	"github.com/skein-project/skein/backend/groupsync"
	"github.com/skein-project/skein/backend/onions"
	"github.com/skein-project/skein/backend/published"
	"github.com/skein-project/skein/backend/zones"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/doctor"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/snapshots"
	"github.com/skein-project/skein/eventlog/stamps"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/wire"
	"github.com/skein-project/skein/lease"
	"github.com/skein-project/skein/present"
	"github.com/skein-project/skein/publisher/descriptor"
)

// statusLog is what the status shows of the event log.
type statusLog interface {
	View(func(*state.State))
	Heads() []event.Head
	Head(event.SourceID) event.Head
	Size() int64
	Digest() [16]byte
	Disk() disk.Report
	Err() error
	Forks() []wire.Fork
	Snapshots() snapshots.Status
	Repairing() []audit.Repairing
	Missing(r audit.Repairing) bool
	Ahead() []stamps.Chain
}

// about is what does not change while a daemon runs.
type about struct {
	self    cluster.NodeID
	cluster string // its name
	version string
	started time.Time
	timing  lease.Timing
	load    Load
}

// hostStatus answers how this host and its members are.
type hostStatus struct {
	about
	*bundle.Hosts
	now       func() time.Duration
	view      func() *coord.View
	roster    Roster
	log       statusLog
	checks    *logChecks
	leases    *leases
	meshes    *meshes
	workers   *workers
	onion     onions.Host // nil: no tor
	stopping  func() bool
	wasReady  atomic.Bool // has been in a current view since the start
	groups    *groupsync.Sync
	published *published.Published
}

// served are the addresses that the cluster serves, as the log says it.
func served(log interface{ View(func(*state.State)) }) (list []string) {
	log.View(func(s *state.State) {
		for _, o := range s.Onions() {
			list = append(list, descriptor.Address(o.Key).String())
		}
	})
	return list
}

// Header implements status.ClusterReader.
func (h *hostStatus) Header() api.Header {
	return api.Header{APIVersion: api.APIVersion, Node: h.self, ObservedAt: time.Now().UTC(), Position: h.position()}
}

func (h *hostStatus) position() uint64 {
	var applied uint64
	h.log.View(func(s *state.State) { applied, _, _ = s.Counts() })
	return applied
}

func (h *hostStatus) Overload(context.Context) (api.Overload, error) { return h.load.Overload(), nil }

// Status implements status.ClusterReader.
func (h *hostStatus) Status(context.Context) (api.Status, error) {
	v := h.view()
	st := api.Status{
		Cluster: h.cluster, Version: h.version, Role: v.Lease.Role, Term: v.Lease.Term,
		UptimeSeconds: time.Since(h.started).Seconds(), Lease: h.leases.summary(v), Mesh: h.meshes.summary(v),
		LocalHealth: v.LocalHealth, Pressure: h.load.API(),
		Reasons: []string{},
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
		if m.Stopped {
			st.Members.Stopped++
		}
		// A daemon that just started has not heard all hosts yet.
		if m.Health != cluster.Alive && (m.Health != cluster.Joining || doctor.Settled(h.timing, time.Since(h.started))) {
			st.Reasons = append(st.Reasons, convert.Ailing(m))
		}
		if m.Incompatible != "" {
			st.Reasons = append(st.Reasons, fmt.Sprintf("%s: %s", m.Node, m.Incompatible))
		}
	}
	st.Members.Left = len(h.roster.Retired())
	st.Reasons = append(st.Reasons, zones.Lost(v)...)
	if why := doctor.CutOff(v, time.Since(h.started)); why != "" {
		st.Reasons = append(st.Reasons, why)
	}
	if v.Lease.Holder == "" {
		st.Reasons = append(st.Reasons, "no holder known")
	}
	for _, id := range st.Lease.Abstaining {
		st.Reasons = append(st.Reasons, fmt.Sprintf("%s abstains: %s", id, v.Abstains(id)))
	}
	if why := h.load.Reason(); why != "" {
		st.Reasons = append(st.Reasons, why)
	}
	if d := h.log.Disk(); d.State == disk.Low || d.State == disk.Full {
		st.Reasons = append(st.Reasons, "event log: "+convert.Room(d))
	}
	st.Reasons = append(st.Reasons, h.groups.Reasons()...)
	st.Reasons = append(st.Reasons, repairReasons(h.log)...)
	for _, c := range h.log.Ahead() {
		st.Reasons = append(st.Reasons, "event log: "+c.String())
	}
	if h.onion != nil {
		shown := h.onion.Status()
		st.Reasons = append(st.Reasons, shown.Faults()...)
	}
	for _, name := range slices.Sorted(maps.Keys(v.Failing)) {
		if why := name + ": " + v.Failing[name]; !slices.Contains(st.Reasons, why) {
			st.Reasons = append(st.Reasons, why)
		}
	}
	switch {
	case h.stopping():
		st.State = api.StateStopping
	case h.Ready() != nil && !h.wasReady.Load():
		st.State = api.StateJoining
	case len(st.Reasons) > 0:
		st.State = api.StateDegraded
	default:
		st.State = api.StateOK
	}
	st.Log = h.logSummary()
	st.Worker = h.workers.summary()
	st.Publish = h.published.Summary()
	h.log.View(func(s *state.State) {
		for _, j := range s.Jobs() {
			switch j.State {
			case job.Pending, job.Queued:
				st.Jobs.Pending++
			case job.Running, job.Cancelling:
				st.Jobs.Running++
			case job.Completed:
				st.Jobs.Completed++
			case job.Failed:
				st.Jobs.Failed++
			case job.Partial:
				st.Jobs.Partial++
			case job.Cancelled:
				st.Jobs.Cancelled++
			case job.TimedOut:
				st.Jobs.Timeout++
			case job.Skipped:
				st.Jobs.Skipped++
			}
		}
	})
	return st, nil
}

// Line is one sentence for systemd: what this host is, and whether all is well.
func (h *hostStatus) Line() string {
	v := h.view()
	alive := 0
	for _, m := range v.Members {
		if m.Health == cluster.Alive {
			alive++
		}
	}
	holder := "no holder"
	if v.Lease.Holder != "" {
		holder = "holder " + string(v.Lease.Holder)
	}
	return fmt.Sprintf("%s, term %d, %s, %d/%d alive, publish %s", v.Lease.Role, v.Lease.Term, holder, alive, len(v.Members),
		present.Publish(h.published.Summary(), time.Now()))
}

func (h *hostStatus) logSummary() api.LogSummary {
	sum := api.LogSummary{StateHash: h.checks.hash.now(h.log)}
	if c := h.checks.ended(); c != nil {
		sum.CheckedAt, sum.CheckProblem = c.EndedAt, c.Bad()
	}
	for _, x := range h.log.Heads() {
		sum.Sources++
		sum.Events += x.Seq
	}
	sum.SizeBytes = uint64(max(0, h.log.Size()))
	st := h.log.Snapshots()
	sum.ReclaimableBytes = uint64(max(0, st.Reclaimable))
	if len(st.Kept) > 0 {
		s := convert.Snapshot(st.Kept[len(st.Kept)-1])
		sum.Snapshot = &s
	}
	for _, f := range h.log.Forks() {
		sum.Forked = append(sum.Forked, f.Source)
	}
	return sum
}

// Members implements status.ClusterReader.
func (h *hostStatus) Members(_ context.Context, all bool) (api.Members, error) {
	v := h.view()
	own := events(h.log)
	out := api.Members{Members: make([]api.Member, 0, len(v.Members))}
	for _, m := range v.Members {
		out.Members = append(out.Members, convert.Member(v, m, own, h.now()))
	}
	if all {
		for _, r := range h.roster.Retired() {
			out.Members = append(out.Members, convert.Retired(r))
		}
		slices.SortStableFunc(out.Members, func(x, y api.Member) int { return strings.Compare(string(x.Node), string(y.Node)) })
	}
	return out, nil
}

// Healthy implements status.Probe.
func (h *hostStatus) Healthy() error { return h.log.Err() }

// Ready implements status.Probe: this host has a current view once it knows a holder and
// its log says who votes; one that has joined just now hears of the one before it reads
// the other. Where the holder is itself, its first term must be open: until then nobody
// may schedule, and a majority that does not answer takes the lease away again.
func (h *hostStatus) Ready() error {
	if h.stopping() {
		return fmt.Errorf("%s is stopping", h.self)
	}
	switch v := h.view(); {
	case v.Lease.Holder == "":
		return fmt.Errorf("%s knows no holder", h.self)
	case v.Lease.Config.IsZero() && !h.wasReady.Load():
		return fmt.Errorf("%s has not read yet who votes", h.self)
	case v.Lease.Role == cluster.RoleHolder && !v.Lease.Ready && !h.wasReady.Load():
		return fmt.Errorf("%s has the lease of term %d and has not opened the term yet", h.self, v.Lease.Term)
	}
	h.wasReady.Store(true)
	return nil
}
