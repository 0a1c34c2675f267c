package backend

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/bundle"
	"github.com/skein-project/skein/backend/gauges"
	"github.com/skein-project/skein/backend/groupsync"
	"github.com/skein-project/skein/backend/joblogs"
	"github.com/skein-project/skein/backend/joboutputs"
	"github.com/skein-project/skein/backend/loads"
	"github.com/skein-project/skein/backend/onions"
	"github.com/skein-project/skein/backend/outside"
	"github.com/skein-project/skein/backend/past"
	"github.com/skein-project/skein/backend/proof"
	"github.com/skein-project/skein/backend/published"
	"github.com/skein-project/skein/backend/reserves"
	"github.com/skein-project/skein/backend/spread"
	"github.com/skein-project/skein/backend/stops"
	"github.com/skein-project/skein/backend/trial"
	"github.com/skein-project/skein/backend/waits"
	"github.com/skein-project/skein/backend/workflows"
	"github.com/skein-project/skein/backend/zones"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/forward/jobwatch"
	"github.com/skein-project/skein/forward/linkwatch"
	"github.com/skein-project/skein/forward/zonewatch"
	"github.com/skein-project/skein/lease"
	"github.com/skein-project/skein/load/slice"
	"github.com/skein-project/skein/status"
	"github.com/skein-project/skein/worker/artefact"
	"github.com/skein-project/skein/worker/words"
)

// Roster says who is a member, and who was.
type Roster interface {
	Member(cluster.NodeID) (cluster.Member, bool)
	Retired() []member.Retired
	// IsRetired reports whether a host left or was removed, LeftSponsor whether it
	// was a sponsor and left by its own signature.
	IsRetired(cluster.NodeID) bool
	LeftSponsor(cluster.NodeID) bool
}

// Recorder logs what an operator changed.
type Recorder interface {
	Record(ctx context.Context, kind event.Kind, body any)
}

// Coord is coordination.
type Coord interface {
	recordsCoord
	leaseCoord
}

// Log is the event log.
type Log interface {
	statusLog
	eventLog
	checkedLog
}

// Scheduler carries out jobs while this host holds the lease.
type Scheduler interface {
	jobScheduler
	setter
	workerLister
	workflows.Scheduler
}

// Options are what a Backend is made of. All must be set unless it says otherwise.
type Options struct {
	Identity    *join.Identity
	ClusterName string
	Version     string
	Started     time.Time
	Timing      lease.Timing
	Now         func() time.Duration
	// Config is what holds until the next start, Live what a reload changes, Running
	// every key as it is in effect.
	Config  config.Fixed
	Live    func() config.Live
	Running func() []config.Entry
	// Stopping reports whether the daemon is shutting down.
	Stopping func() bool

	Log       Log
	Coord     Coord
	Mesh      Device
	Roster    Roster
	Worker    Worker
	Scheduler Scheduler
	Artefacts Artefacts
	Compiler  trial.Compiler
	// Words are those of attempts that ran here, Outputs what jobs left.
	Words    *words.Ring
	Outputs  *artefact.Store
	Slices   *slice.Host // this host's parts in load tests
	Recorder Recorder
	Forward  *forward.Router
	Own      Own
	Sponsor  Sponsor
	// JoinAddrs lists where newcomers reach this host.
	JoinAddrs func(via api.TokenVia) ([]string, error)
	// Load is how loaded this host is.
	Load Load
	// Onion and Tor are nil where tor is off.
	Onion onions.Host
	Tor   onions.Tor

	Logger zerolog.Logger
	// Warnings are the last ones of Logger, a line each. Events is the newest part of Log
	// with what proves it: see offline.RecentEvents.
	Warnings func() []byte
	Events   func(ctx context.Context, span time.Duration, most int) ([]byte, time.Time, error)
	Metrics  *prometheus.Registry
}

// Load tells people how loaded this host is.
type Load interface {
	API() api.Pressure
	Overload() api.Overload
	Reason() string
	Pauses() bool // what can wait does
}

// Backend implements status.Backend.
type Backend struct {
	*hostStatus
	*meshes
	*diagnosis
	*leases
	*jobs
	*groups
	*users
	*workers
	*logs
	*positions
	*onions.Control
	*tokens
	*members

	checks *logChecks
	sync   *groupsync.Sync
}

var _ status.Backend = (*Backend)(nil)

// New returns a Backend. It starts nothing.
func New(o Options) *Backend {
	gone := stops.New(o.Log, o.Coord.View)
	self, view := o.Identity.Node, gone.View
	hash := &stateHash{}
	grouped := func(ctx context.Context) (api.Workers, error) { return workerGroups(ctx, o.Forward) }
	watched := zonewatch.New(zonewatch.Options{View: view, Workers: grouped, Changed: o.Log.Changed, Router: o.Forward})
	o.Metrics.MustRegister(gauges.New(gauges.Options{Version: o.Version, View: view, Now: o.Now, Wall: time.Now}))
	b := &Backend{
		checks: newLogChecks(self, o.Log, hash, o.Load.Pauses, o.Logger),
		meshes: &meshes{
			self: self, listen: o.Config.Mesh.Listen.String(), autoMTU: func() bool { return o.Live().MTU == 0 }, device: o.Mesh, view: view, own: o.Own,
			links: linkwatch.New(linkwatch.Options{
				Self: self, View: view, Peers: o.Mesh.Observe, Router: o.Forward, Relay: watched, Logger: o.Logger,
			}),
		},
		leases: &leases{
			self: self, timing: o.Timing, now: o.Now, view: view, log: o.Log, past: past.New(self, o.Log, o.Log.Rewind().At), coord: o.Coord, record: o.Recorder, remote: o.Forward,
		},
		jobs: &jobs{
			self: self, view: view, log: o.Log, artefacts: o.Artefacts, spread: spread.New(self, view, o.Artefacts), trial: trial.New(o.Compiler, o.Logger), sched: o.Scheduler, remote: o.Forward,
		},
		groups: &groups{Desk: reserves.New(o.Log, o.Scheduler, o.Forward, func(actor string) string { return forward.At(actor, self) }), self: self, log: o.Log, sched: o.Scheduler, remote: o.Forward},
		users: &users{self: self, view: view, log: o.Log, sched: o.Scheduler, roster: o.Roster, remote: o.Forward, Desk: outside.New(outside.Options{
			Self: self, Log: o.Log, Scheduler: o.Scheduler, Remote: o.Forward, Aware: func(kind event.Kind) error { return aware(view(), kind) },
			Workers: grouped,
			Health: func(n cluster.NodeID) cluster.Health {
				if m, ok := view().Member(n); ok {
					return m.Health
				}
				return cluster.Left
			},
		})},
		workers: &workers{
			self: self, worker: o.Worker, sched: o.Scheduler, view: view, now: o.Now, roster: o.Roster, record: o.Recorder, remote: o.Forward, Hub: watched, logger: o.Logger,
		},
		members: &members{gone: gone, self: self, own: o.Own, roster: o.Roster, remote: o.Forward},
		Control: onions.New(onions.Options{
			Self: self, Host: o.Onion, Tor: o.Tor, View: view, Roster: o.Roster, Record: o.Recorder, Remote: o.Forward, Logger: o.Logger,
		}),
		tokens: &tokens{
			id: o.Identity, sponsor: o.Sponsor, others: o.Forward.Sponsors, addrs: o.JoinAddrs, record: o.Recorder, logger: o.Logger,
		},
	}
	b.jobs.Waits = waits.New(waits.Options{Holder: func() cluster.NodeID { return view().Lease.Holder }, Scheduler: o.Scheduler, Job: b.jobHere, Remote: o.Forward, Logger: o.Logger})
	b.watches = jobwatch.New(jobwatch.Options{
		Job: b.jobHere, Changed: o.Log.Changed, Router: o.Forward, Relay: watched, Logger: o.Logger,
		Elsewhere: func() bool { holder := view().Lease.Holder; return holder != "" && holder != self },
	})
	b.jobs.Outputs = joboutputs.New(joboutputs.Options{Log: o.Log, Artefacts: o.Artefacts, Aware: func(kind event.Kind) error { return aware(view(), kind) }})
	b.jobs.Runs = workflows.New(workflows.Options{
		Self: self, Log: o.Log, Scheduler: o.Scheduler, Remote: o.Forward, Check: b.jobs.checkModule, Files: b.jobs.CheckFiles, Spread: b.jobs.spread.To,
		AwaitHolder: b.jobs.awaitHolder, Aware: func(kind event.Kind) error { return aware(view(), kind) }, InZone: func(zone string) bool { return zones.Named(view(), zone) },
		Zones: func(id flow.RunID, q flow.Zoned) ([]string, error) { return b.workers.Each(id, q) },
	})
	b.jobs.Loads = loads.New(loads.Options{
		Self: self, Log: o.Log, Scheduler: o.Scheduler, Remote: o.Forward, Host: o.Slices, Watch: watched.WatchLoad, AwaitHolder: b.jobs.awaitHolder,
		Members: func() []cluster.NodeID { return livingMembers(view()) }, Holder: func() cluster.NodeID { return view().Lease.Holder },
		Get: o.Artefacts.Get, Spread: b.jobs.spread.To, Keep: o.Outputs.Put, Kept: o.Outputs.Get,
		Aware: func(kind event.Kind) error { return aware(view(), kind) }, Logger: o.Logger,
	})
	b.workers.Board = zones.New(zones.Options{View: view, Workers: o.Scheduler.Workers, Log: zones.Folded{Log: o.Log}, Set: o.Scheduler.Set, Remote: o.Forward, Watched: watched.Judged, Note: o.Recorder.Record, Now: o.Now, Logger: o.Logger, Registerer: o.Metrics})
	b.jobs.Logs = joblogs.New(joblogs.Options{
		Self: self, Log: o.Log, Ring: o.Words, Members: func() []cluster.NodeID { return livingMembers(view()) }, Read: o.Outputs.Get, Remote: o.Forward,
	})
	proofs := proof.New(proof.Options{
		Cluster: o.Identity.Cluster, RootKey: o.Identity.RootPub, Head: o.Log.Head, Group: proof.Of(o.Log), Records: o.Coord.Records, Checked: b.checks.ended,
	})
	b.logs = &logs{Past: b.past, Proofs: proofs, self: self, log: o.Log, roster: o.Roster, remote: o.Forward, checks: b.checks, logger: o.Logger}
	b.positions = &positions{self: self, view: view, log: o.Log, coord: o.Coord, remote: o.Forward}
	here := about{self: self, cluster: o.ClusterName, version: o.Version, started: o.Started, timing: o.Timing, load: o.Load}
	b.diagnosis = &diagnosis{
		fixed: o.Config, live: o.Live, running: o.Running, identity: o.Identity, about: here,
		device: o.Mesh, coord: o.Coord, log: o.Log, checks: b.checks,
		onion: o.Onion, tor: o.Tor, waits: b.jobs.Waits,
	}
	reports := published.New(published.Options{Log: o.Log, Served: func() []string { return served(o.Log) }})
	b.hostStatus = &hostStatus{
		about: here,
		now:   o.Now, view: view, roster: o.Roster, log: o.Log, checks: b.checks, leases: b.leases, meshes: b.meshes, workers: b.workers,
		onion: o.Onion, stopping: o.Stopping, published: reports,
	}
	b.sync = groupsync.New(groupsync.Options{
		File: func() string { return o.Live().GroupsFile },
		URL:  func() (url, credential string) { return o.Live().GroupsURL, o.Live().GroupsCredential },
		Have: groupsync.Members(o.Log), Set: b.groups.fromConfig, Logger: o.Logger,
	})
	b.hostStatus.Hosts = bundle.NewHosts(bundle.HostsOptions{Self: self, Version: o.Version, Known: known(o.Roster), Remote: o.Forward, Gather: bundle.New(bundle.Options{
		Views: map[string]bundle.View{
			"config": bundle.Of(b.Config), "doctor": bundle.Of(b.Doctor), "jobs": bundle.Of(b.Jobs), "lease": bundle.Of(b.Lease),
			"lease-history": bundle.Of(b.LeaseHistory), "log-snapshots": bundle.Of(b.Snapshots), "mesh": bundle.Of(b.Mesh), "status": bundle.Of(b.Status),
			"members": bundle.Of(func(ctx context.Context) (api.Members, error) { return b.Members(ctx, true) }),
			"onion":   bundle.Of(func(ctx context.Context) (api.Onion, error) { return b.Onion(ctx) }),
			"voters":  bundle.Of(b.Voters), "workers": bundle.Of(b.Workers),
			"overload":  bundle.Of(b.Overload),
			"workflows": bundle.Of(func(ctx context.Context) (api.Workflows, error) { return b.Workflows(ctx) }),
		},
		Metrics: o.Metrics, Warnings: o.Warnings, Events: o.Events,
	})})
	b.hostStatus.groups, b.groups.sync, b.diagnosis.groups = b.sync, b.sync, b.sync
	return b
}

// Handle registers what this host carries out for others.
func (b *Backend) Handle(r *forward.Router) {
	for _, part := range []interface{ Handle(r *forward.Router) }{b.users.Desk, b.jobs.Runs, b.jobs.Loads, b.workers.Board, b.workers.Hub, b.groups.Desk, b.Control, b.watches, b.links} {
		part.Handle(r)
	}
	forward.Handle(r, forward.Carry, b.carried)
	forward.Handle(r, forward.CheckLog, b.checkLogFor)
	forward.Handle(r, forward.Debug, b.hostStatus.Hosts.Serve)
	forward.Handle(r, forward.Drain, b.drainFor)
	forward.Handle(r, forward.Explain, b.jobs.ServeExplain)
	forward.Handle(r, forward.Group, b.setGroup)
	forward.Handle(r, forward.HostOwner, b.setOwner)
	forward.HandleStream(r, forward.JobLogs, b.jobs.ServeLogs)
	forward.Handle(r, forward.Position, b.positionHere)
	forward.Handle(r, forward.Release, b.release)
	forward.Handle(r, forward.Snapshot, b.snapshotHere)
	forward.Handle(r, forward.StepDown, b.stepDown)
	forward.Handle(r, forward.Stop, b.stopJob)
	forward.Handle(r, forward.Submit, b.workers.Submitting(b.submitHere))
	forward.Handle(r, forward.User, b.setUser)
	forward.Handle(r, forward.Waiting, b.jobs.Serve)
	forward.Handle(r, forward.Workers, b.workersHere)
	forward.Handle(r, forward.WorkerGroups, b.workerGroupsHere)
}

// Run does what nobody waits for, until ctx ends: it checks the whole log, when asked
// to and slowly once a day, takes the groups of jobs.groups_file and jobs.groups_url into
// it, gathers half-edges while somebody looks at them, reads in the log how the publishing
// goes and which hosts stopped, and judges the zones while this host holds.
func (b *Backend) Run(ctx context.Context) error {
	errs := make([]error, 6)
	var all sync.WaitGroup
	for i, run := range []func(context.Context) error{b.checks.run, b.sync.Run, b.links.Run, b.hostStatus.published.Run, b.members.gone.Run, b.workers.Board.Run} {
		all.Go(func() { errs[i] = run(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// ReloadGroups has the groups file read again.
func (b *Backend) ReloadGroups() { b.sync.Reload() }

// events is how many events a log has.
func events(log interface{ Heads() []event.Head }) (total uint64) {
	for _, h := range log.Heads() {
		total += h.Seq
	}
	return total
}
