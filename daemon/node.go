package daemon

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/eventlog"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/lease"
	"github.com/skein-project/skein/mesh"
	"github.com/skein-project/skein/scheduler"
	"github.com/skein-project/skein/scheduler/plan"
	"github.com/skein-project/skein/systemd"
	"github.com/skein-project/skein/worker"
)

// node is one running host: everyone, and what they need of each other.
type node struct {
	cfg     config.Config
	version string
	started time.Time
	log     zerolog.Logger
	reg     *prometheus.Registry
	notify  *systemd.Notifier
	timing  lease.Timing
	now     func() time.Duration
	wall    func() time.Time // nil: the machine's
	// runnerArgv starts this program as a chunk runner.
	runnerArgv []string

	id        *join.Identity
	boot      uint64
	chain     uint64 // incarnation of the own chain, as last seen; watchOwnChain's
	events    *eventlog.Log
	mesh      *mesh.Mesh
	coord     *coord.Service
	artefacts *worker.Artefacts
	wasm      *worker.WASM
	worker    *worker.Worker
	sched     *scheduler.Scheduler
	tor       *torHost                     // nil: off
	onions    *onions                      // nil as well
	invites   atomic.Pointer[join.Invites] // nil: this host admits nobody

	sponsor  atomic.Pointer[join.Sponsor] // nil: this host admits nobody
	certLife time.Duration                // of what it certifies; 0: the usual one
	logFS    eventlog.FS                  // nil: the machine's
	// door passes joins on that come in through a master address; nil: no tor.
	door    *join.Doorkeeper
	planner *planner
	groups  *groupsFile
	self    *selfCare
	bound   netip.Addr // the mesh address that the sockets have

	stopping atomic.Bool
	left     atomic.Bool // this host leaves by its own will
	wasReady atomic.Bool // has been in a current view since the start
	// joined is closed when the own chain is known to be complete, so that
	// appending to it cannot fork it.
	joined chan struct{}
	rates  rateTracker

	loaded     atomic.Pointer[config.Config] // as last loaded
	readConfig func() (config.Config, error) // nil: it cannot be
	level      *logLevel
	rand       func() float64

	roster  atomic.Pointer[roster]
	healths map[cluster.NodeID]cluster.Health // onHealth's
	// notes are events that wait for the log, conflicts contradictions that
	// wait for the holder; when full the newest is dropped.
	notes     chan cluster.Draft
	conflicts chan cluster.MemberConflict
	// ended gets why the cluster wants this daemon to end; capacity 1, the
	// first one counts.
	ended chan error

	favours favourLimits // of other members
	checks  *logChecks

	conflictMu    sync.Mutex
	conflictsKept []string // disputes that this host wrote down as holder

	hashMu sync.Mutex
	hashOf [16]byte     // log digest that hash belongs to
	hash   cluster.Hash // state hash
}

// load reads the state directory and makes the parts that need no network.
func (n *node) load() (member.Records, error) {
	id, records, err := join.Load(n.cfg.StateDir)
	if err != nil {
		return records, err
	}
	n.id = id
	if name := n.cfg.Node.Name; name != id.Node {
		n.log.Warn().Str("node", string(id.Node)).Str("configured", string(name)).
			Msg("node.name is ignored: a member keeps the name with which it joined; set node.name to that")
	}
	before := rosterOf(id, records)
	n.roster.Store(&before)
	if err := n.goneFor(); err != nil {
		return records, err
	}
	if n.boot, err = join.BootCounter(n.cfg.StateDir, n.started); err != nil {
		return records, err
	}
	about, err := aboutOf(n.cfg, n.meshPrefixes()...)
	if err != nil {
		return records, err
	}
	// A new announcement at each start: the configuration may have changed.
	ann, err := join.Announce(n.cfg.StateDir, id, about, time.Now())
	if err != nil {
		return records, err
	}
	records.Anns = append(records.Anns, ann)
	now := rosterOf(id, records)
	n.roster.Store(&now)
	n.planner, n.self = newPlanner(n), newSelfCare(n, about, epochOf(ann))
	n.checks, n.groups = newLogChecks(n), newGroupsFile(n)

	if n.events, err = eventlog.Open(eventlog.Options{
		Dir: logDir(n.cfg.StateDir), Cluster: id.Cluster.String(), Self: id.Node, Key: id.IDKey(),
		KeyOf:          n.keyOf,
		OnEquivocation: n.onEquivocation,
		MayAct:         n.mayAct,
		Promised:       n.voterTerm,
		Dial:           n.dialer(eventlog.Proto),
		Peers:          n.reachable,
		Wall:           n.wall,
		Stamp:          n.stamper().now,
		Float:          rand.Float64,
		SegmentSize:    n.cfg.EventLog.SegmentBytes,
		SnapshotEvents: orNever(n.cfg.EventLog.SnapshotEvents),
		RetainBytes:    orNever(n.cfg.EventLog.RetainBytes),
		RetainAge:      time.Duration(n.cfg.EventLog.RetainDays) * 24 * time.Hour,
		ArchiveDir:     n.cfg.EventLog.ArchiveDir,
		LowWater:       n.cfg.EventLog.LowWater, Reserve: n.cfg.EventLog.Reserve,
		MaxBytes: n.cfg.EventLog.MaxBytes, SourceBytes: n.cfg.EventLog.SourceBytes,
		OnPoison: func(error) { n.checkLog() }, OnDisk: n.onDisk, FS: n.logFS,
		Logger: n.log, Registerer: n.reg,
	}); err != nil {
		return records, err
	}
	n.chain = n.events.Source().Inc
	return records, nil
}

// build makes the parts that live on the mesh, whose device runs already.
func (n *node) build(ctx context.Context, records member.Records) error {
	self, ok := n.member(n.id.Node)
	if !ok {
		return fmt.Errorf("no record of %s in %s", n.id.Node, n.cfg.StateDir)
	}
	if err := n.planner.applyWithin(ctx, firstMeshTime); err != nil {
		return err
	}
	n.bound = meshAddr(self)
	at := netip.AddrPortFrom(n.bound, coord.Port)
	packets, err := n.mesh.ListenPacket(ctx, at)
	if err != nil {
		return fmt.Errorf("mesh socket: %w", err)
	}
	listener, err := n.mesh.Listen(ctx, at)
	if err != nil {
		return fmt.Errorf("mesh socket: %w", err)
	}
	root, err := n.rootKey()
	if err != nil {
		return err
	}
	if err := n.buildWork(); err != nil {
		return err
	}
	fallback, err := n.fallback(ctx)
	if err != nil {
		return err
	}
	if n.coord, err = coord.New(coord.Options{
		Self: n.id.Node, Key: n.id.IDKey(), Verifier: n.id.Verifier(), Records: records,
		Store: coord.NewFileStore(n.cfg.StateDir, n.id.Cluster, n.id.Node), Boot: coord.MarkBoot(n.boot, rand.Uint32()), Founder: root != nil,
		Secret:     n.id.ClusterSecret(),
		PacketConn: packets, Listener: listener, DialTCP: n.mesh.Dial, Fallback: fallback,
		MaxVoters: n.cfg.Lease.MaxVoters, LastTerm: n.lastTerm(),
		Profile: n.cfg.Lease.Profile, Mode: n.cfg.Lease.Mode, Tolerance: n.cfg.Clock.Tolerance, Legacy: n.cfg.Coord.Legacy,
		Observed: n.mesh.Endpoints, Interfaces: n.interfaces, MTU: n.probeMTU, OnBlackhole: n.onBlackhole, OnDuplicate: n.onDuplicate,
		Now: n.now, Wall: n.wall, Version: n.version, Log: n.logState, Local: n.local,
		OnChange: n.onChange, OnMembers: n.onMembers, OnHealth: n.onHealth, OnLoop: func() { n.tell(n.notify.Watchdog()) },
		Logger: n.log, Registerer: n.reg,
	}); err != nil {
		return err
	}
	if err := n.keepDoor(); err != nil {
		return err
	}
	n.coord.Handle(eventlog.Proto, n.events.Serve)
	n.coord.Handle(worker.BlobProto, n.artefacts.Serve)
	n.coord.Handle(scheduler.Proto, n.worker.Serve)
	n.coord.Handle(protoAPI, n.serveAPI)
	return nil
}

// The log, the worker and the scheduler are made before the coordination that
// they ask; nothing runs until all exist.
func (n *node) mayAct(t cluster.Term) bool { return n.coord.MayAct(t) }
func (n *node) promised() cluster.Term     { return n.coord.PromisedTerm() }

// voterTerm is below what this host acknowledges nothing for the log.
func (n *node) voterTerm() cluster.Term { return n.coord.VoterTerm() }

// checkHolder refuses a scheduler that contradicts the lease as this host sees
// it. A holder that this host has not heard of yet is let in: the worker's own
// terms fence it, and a refusal would cost failover time.
func (n *node) checkHolder(from cluster.NodeID, term cluster.Term) error {
	l := n.coord.View().Lease
	if l.Holder != "" && l.Holder != from && l.Term >= term {
		return fmt.Errorf("%s holds term %d, not %s term %d", l.Holder, l.Term, from, term)
	}
	return nil
}

// buildWork makes what runs jobs.
func (n *node) buildWork() error {
	var err error
	if n.artefacts, err = worker.NewArtefacts(worker.ArtefactsOptions{
		Dir: filepath.Join(n.cfg.StateDir, "artefacts"), Quota: n.cfg.Jobs.ArtefactBytes,
		Dial: n.dialer(worker.BlobProto), Peers: n.owners, Logger: n.log, Registerer: n.reg,
	}); err != nil {
		return err
	}
	if n.wasm, err = worker.NewWASM(worker.WASMOptions{
		Artefacts: n.artefacts, Slots: n.cfg.Worker.Slots, MemoryBytes: n.cfg.Worker.MemoryBytes,
		CacheDir: filepath.Join(n.cfg.StateDir, "wasm-cache"), RunnerArgv: n.runnerArgv, Logger: n.log, Registerer: n.reg,
	}); err != nil {
		return err
	}
	executors := map[string]worker.Executor{cluster.ExecutorWASM: n.wasm}
	if len(n.cfg.Exec.Programs) > 0 {
		if executors[cluster.ExecutorExec], err = n.buildExec(); err != nil {
			return err
		}
	}
	if n.worker, err = worker.New(worker.Options{
		Slots: n.cfg.Worker.Slots, Queue: n.cfg.Worker.Queue,
		Executors:  executors,
		OutboxFile: filepath.Join(n.cfg.StateDir, "outbox"),
		DrainFile:  filepath.Join(n.cfg.StateDir, "worker-drained"),
		Now:        n.now,
		MinTerm:    n.promised, CheckHolder: n.checkHolder,
		Logger: n.log, Registerer: n.reg,
	}); err != nil {
		return err
	}
	n.sched, err = scheduler.New(scheduler.Options{
		Self: n.id.Node, Log: n.events, MayAct: n.mayAct, Dial: n.dialer(scheduler.Proto), Now: n.now,
		Plan: planConfig(n.cfg.Jobs), Logger: n.log, Registerer: n.reg,
	})
	return err
}

// buildExec makes what runs this host's own programs.
func (n *node) buildExec() (*worker.Exec, error) {
	c := n.cfg.Exec
	return worker.NewExec(worker.ExecOptions{
		Programs: c.Programs, Artefacts: n.artefacts, Slots: n.cfg.Worker.Slots, RunnerArgv: n.runnerArgv,
		ScratchDir: c.ScratchDir, ScratchBytes: c.ScratchBytes, User: c.User, Cgroup: c.Cgroup, Processes: c.Processes,
		MemoryBytes: min(n.cfg.Worker.MemoryBytes, cluster.MaxMemoryBytes), Grace: c.Grace,
		Logger: n.log, Registerer: n.reg,
	})
}

// planConfig is what the operator allows owners and workers.
func planConfig(c config.Jobs) plan.Config {
	rate := func(perSecond, burst int) plan.Rate {
		return plan.Rate{PerSecond: float64(perSecond), Burst: float64(perSecond) * float64(burst)}
	}
	return plan.Config{
		MaxJobs: c.Open, Completions: rate(c.WorkerResults, 10),
		Owner: plan.OwnerLimits{Submits: rate(c.OwnerJobs, 50), Chunks: rate(c.OwnerChunks, 20), Open: c.OwnerOpen},
	}
}

// dialer opens streams of one protocol.
func (n *node) dialer(proto string) func(context.Context, cluster.NodeID) (net.Conn, error) {
	return func(ctx context.Context, to cluster.NodeID) (net.Conn, error) { return n.coord.Dial(ctx, to, proto) }
}

// reachable lists the other members that are alive, the best first.
func (n *node) reachable() []cluster.NodeID {
	var out []cluster.NodeID
	for _, m := range n.coord.View().Members {
		if m.Node != n.id.Node && m.Health == cluster.Alive {
			out = append(out, m.Node)
		}
	}
	return out
}

// owners lists who may have an artefact: hosts that are alive first, then those
// that this host has not heard yet or not lately.
func (n *node) owners() []cluster.NodeID {
	out := n.reachable()
	for _, m := range n.coord.View().Members {
		if m.Node != n.id.Node && (m.Health == cluster.Joining || m.Health == cluster.Suspect) {
			out = append(out, m.Node)
		}
	}
	return out
}

func (n *node) logState() coord.LogState {
	return coord.LogState{Digest: n.events.Digest(), Events: n.ownEvents()}
}

// local is what heartbeats say of this host.
func (n *node) local() coord.Local {
	w := n.worker.View()
	l := coord.Local{Slots: uint32(w.Slots), Busy: uint32(len(w.Running)), Draining: !n.conf().Lease.Eligible}
	if n.onions != nil {
		l.IntroPoints = n.onions.points.Load()
		if at := n.onions.last.Load(); at > 0 {
			l.LastPublish = &at
		}
	}
	return l
}

// admit is the sponsor's hook: the newcomer's records are merged, and its
// admission logged, before it gets its answer.
func (n *node) admit(ctx context.Context, a join.Admission) error {
	if err := n.coord.AddRecords(ctx, member.Records{Certs: []member.Signed{a.Cert}, Anns: []member.Signed{a.Ann}}); err != nil {
		return err
	}
	if a.Again {
		return nil
	}
	select {
	case <-n.joined:
	case <-ctx.Done():
		return ctx.Err()
	}
	_, err := n.events.Append(ctx, []cluster.Draft{{
		Kind: cluster.KindMemberJoined,
		Body: cluster.MemberJoined{Node: a.Member.Node, IDPub: a.Member.IDPub, IP4: a.Member.IP4.String(), Invite: a.Invite},
	}})
	return err
}

// lastTerm is the highest term in the log.
func (n *node) lastTerm() (term cluster.Term) {
	n.events.View(func(s *state.State) {
		if t, ok := s.LastTerm(); ok {
			term = t.Term
		}
	})
	return term
}

// watchOwnChain tells the lease when others turn out to know more of this
// host's chain than its disk: then the disk has lost votes as well.
func (n *node) watchOwnChain() {
	if inc := n.events.Source().Inc; inc != n.chain {
		n.chain = inc
		n.coord.VoteLost("others know more of its event log than its disk")
	}
}

// Periods of the care for artefacts.
const (
	tendEvery    = 3 * time.Second
	collectEvery = 10 * time.Minute
	keepArtefact = 24 * time.Hour
)

// tendArtefacts fetches what open jobs need, so that a job outlives the hosts
// that had its module when it came, and removes what no open job needs and was
// not stored lately; until ctx ends.
func (n *node) tendArtefacts(ctx context.Context) error {
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	collected := time.Now()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		keep := map[cluster.Hash]bool{}
		n.events.View(func(s *state.State) {
			for _, j := range s.Jobs() {
				if !j.State.Final() {
					for _, h := range j.Spec.Hashes() {
						keep[h] = true
					}
				}
			}
		})
		for h := range keep {
			if _, ok := n.artefacts.Has(h); !ok {
				if err := n.artefacts.Fetch(ctx, h, nil); err != nil {
					n.log.Debug().Err(err).Msg("artefact of an open job not fetched")
				}
			}
		}
		if time.Since(collected) < collectEvery {
			continue
		}
		collected = time.Now()
		freed, err := n.artefacts.Collect(func(h cluster.Hash) bool { return keep[h] }, keepArtefact)
		if err != nil {
			n.log.Warn().Err(err).Msg("artefacts not collected")
		} else if freed > 0 {
			n.log.Info().Int64("bytes", freed).Msg("artefacts collected")
		}
	}
}

// Bounds of the check of the own chain after a start.
const (
	ownHeadTry = 2 * time.Second
	// ownHeadWait is how long a host whose lease does not need a majority
	// waits for the others.
	ownHeadWait = 3 * time.Second
	// ownChainEvery is the period of looking whether the chain went on as
	// another incarnation.
	ownChainEvery = time.Second
)

// confirmOwnChain asks the voters whether they know more of this host's chain
// than its disk does, which a restored disk would not tell, and then writes
// the first event. Nothing else is appended before. Then it goes on to look for
// the same, until ctx ends.
func (n *node) confirmOwnChain(ctx context.Context) error {
	start := time.Now()
	for ctx.Err() == nil {
		cfg := n.coord.View().Lease.Config
		others := slices.DeleteFunc(slices.Clone(cfg.Voters), func(v cluster.NodeID) bool { return v == n.id.Node })
		if len(others) == 0 && !cfg.IsZero() {
			break
		}
		peers := others
		if len(peers) == 0 {
			peers = n.reachable()
		}
		try, cancel := context.WithTimeout(ctx, ownHeadTry)
		answered, err := n.events.CheckOwnHead(try, peers)
		cancel()
		n.watchOwnChain()
		if err != nil {
			n.log.Debug().Err(err).Msg("own chain not confirmed yet")
			answered = 0 // what they said could not be compared
		}
		need := cfg.Majority() // what was stable is on a majority, in available mode on any
		if cfg.Mode == cluster.ModeAvailable {
			need = len(cfg.Voters)
		}
		if !cfg.IsZero() && answered+1 >= need {
			break
		}
		if cfg.Mode != cluster.ModeQuorum && time.Since(start) > ownHeadWait {
			break
		}
		timer := time.NewTimer(200 * time.Millisecond)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, err := n.events.Append(ctx, []cluster.Draft{{
		Kind: cluster.KindHostStarted, Body: cluster.HostStarted{Version: n.version, Boot: n.boot},
	}}); err != nil {
		return err
	}
	close(n.joined)
	tick := time.NewTicker(ownChainEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			n.watchOwnChain() // a host that was away may still know more
		}
	}
}

// close releases what was opened and never run.
func (n *node) close() {
	if n.events != nil {
		_ = n.events.Close() // nothing was admitted
	}
}
