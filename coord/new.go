package coord

import (
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/clocks"
	"github.com/skein-project/skein/coord/distance"
	"github.com/skein-project/skein/coord/election"
	"github.com/skein-project/skein/coord/endpoint"
	"github.com/skein-project/skein/coord/gossip"
	"github.com/skein-project/skein/coord/health"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/notify"
	"github.com/skein-project/skein/coord/ownlog"
	"github.com/skein-project/skein/coord/path"
	"github.com/skein-project/skein/coord/pathmtu"
	"github.com/skein-project/skein/coord/share"
	"github.com/skein-project/skein/coord/swim"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/loglimit"
	"github.com/skein-project/skein/lease"
)

// New checks o, loads the vote record and judges the records. It starts
// nothing.
func New(o Options) (*Service, error) {
	s, err := build(o)
	if err != nil {
		return nil, fmt.Errorf("coord of %s: %w", o.Self, err)
	}
	return s, nil
}

func build(o Options) (*Service, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	log := o.Logger.With().Str("component", "coord").Logger()
	hosts := &hosts{peers: make(map[cluster.NodeID]*peerState)}
	notifier := notify.New(o.OnMembers, o.OnHealth, m.dropped.WithLabelValues("notice").Inc)
	b := &builder{o: o, m: m, log: log, gate: loglimit.New(o.Now, 10*time.Second), s: &Service{
		self: o.Self, local: o.Local, loop: newLoop(), views: &views{hosts: hosts, notifier: notifier},
		Members: &Members{
			key: publicKey(o.Key), hosts: hosts, endpoints: endpoint.New(o.Self, member.ULAPrefix(o.Verifier.Cluster)),
			waiting: &introductions{hosts: hosts, queued: make(map[cluster.NodeID]bool)}, notifier: notifier, log: log,
		},
		Lease: &Lease{now: o.Now, hosts: hosts},
	}}
	for _, part := range []func() error{b.transport, b.records, b.elector, b.shares, b.health, b.clocks, b.prober, b.distances} {
		if err := part(); err != nil {
			return nil, err
		}
	}
	b.heartbeats()
	b.views()
	b.connect()
	b.s.Members.membersChanged(o.Now())
	b.s.views.publish(o.Now())
	return b.s, nil
}

// builder makes the parts of a Service in the order of build and gives each what it
// needs of the others. What a part needs of one that is made later is a func.
type builder struct {
	o    Options
	m    *metrics
	log  zerolog.Logger
	gate *loglimit.Gate
	s    *Service
	far  *distance.Distances
}

func (b *builder) transport() (err error) {
	o, s := &b.o, b.s
	s.net, err = transport.New(transport.Options{
		Self: o.Self, Key: o.Key, Boot: o.Boot, PacketConn: o.PacketConn, Listener: o.Listener, DialTCP: o.DialTCP, Port: o.Port,
		Fallback: o.Fallback, Heartbeat: o.Timing.Heartbeat, Suspect: o.Timing.Suspect, Tolerance: o.Tolerance,
		Now: o.Now, Wall: o.Wall, Rand: o.Rand, Post: s.loop.post,
		OnPath: func(a path.Changed) {
			s.views.touch()
			s.beats.pathChanged(a, o.Now())
		},
		Reasons: []wire.Reason{reasonMajor, reasonProfile, election.ReasonProof, election.ReasonConfigProof, reasonStaleClaim},
		Logger:  b.log, Gate: b.gate, Registerer: o.Registerer,
	})
	s.Members.net = s.net
	return err
}

func (b *builder) records() (err error) {
	o, s, hosts := &b.o, b.s, b.s.Members.hosts
	s.Members.records, err = gossip.New(gossip.Options{
		Self: o.Self, Verifier: o.Verifier, Secret: o.Secret, Known: o.Records, Save: o.Store.SaveRecords, Now: o.Now, Wall: o.Wall,
		Net: s.net, Post: s.loop.post, Call: s.loop.call, Go: s.loop.start,
		Changed: func(ch member.Change, evidence []member.Evidence) {
			if f := o.OnChange; f != nil {
				s.views.notifier.Notice(func() { f(ch, evidence) })
			}
		},
		Stored: func() {
			s.views.touchMembers()
			s.Members.membersChanged(o.Now())
		},
		Merged: s.Members.recordsMerged,
		Reach:  func() []cluster.NodeID { return s.beats.schedule.reach(o.Now()) },
		Alive:  func(n cluster.NodeID) bool { return s.health.Of(n) == cluster.Alive },
		TimedOut: func(n cluster.NodeID) {
			if p := hosts.peers[n]; p != nil {
				p.path.Again()
			}
		},
		Logger: b.log, Gate: b.gate, Registerer: o.Registerer,
	})
	if err != nil {
		return err
	}
	self, ok := s.Members.records.Table().Announced(o.Self)
	if !ok {
		return errors.New("no certificate and announcement of this host in its records")
	}
	if !transport.NewDirectory([]cluster.Member{self}).Same(o.Self, s.Members.key) {
		return errors.New("identity key is not the certified one")
	}
	hosts.self = self
	return nil
}

func (b *builder) elector() (err error) {
	o, s := &b.o, b.s
	known := s.Members.records.Table()
	s.Lease.elector, err = election.New(election.Options{
		Self: s.Members.hosts.self, Key: o.Key, Cluster: o.Verifier.Cluster, Store: o.Store, FirstStart: firstBoot(o.Boot),
		Alone:   o.Founder && len(known.Members()) == 1 && len(known.Retired()) == 0,
		Profile: o.Profile, Timing: *o.Timing, Mode: o.Mode, MaxVoters: o.MaxVoters, LastTerm: o.LastTerm,
		Now: o.Now, Mono: o.Mono, Rand: o.Rand, Reject: s.net.Reject,
		Send: s.net.Send, Renewal: func() { s.beats.schedule.renewal(o.Now()) },
		Judge: func(from cluster.NodeID, profile cluster.Profile) error { return s.listener.judge(from, profile) },
		KeyOf: s.Members.keyOf, Former: s.Members.formerKeys, Changed: s.views.touch,
		Dropped: func(kind string) { b.m.dropped.WithLabelValues(kind).Inc() },
		Logger:  b.log, Gate: b.gate, Registerer: o.Registerer,
	})
	return err
}

func (b *builder) shares() (err error) {
	o, s := &b.o, b.s
	s.shares, err = share.New(share.Options{
		Now: o.Now, Wall: o.Wall, Net: s.net, Post: s.loop.post, Call: s.loop.call, Go: s.loop.start,
		Audience: func() []cluster.NodeID { return s.beats.schedule.audience() },
		Large:    func() bool { return len(s.Members.hosts.members) > MaxDirect },
		Keeps: func() bool {
			st := s.Lease.elector.Status()
			return st.Publishing || st.Role == cluster.RoleHolder
		},
		Changed: s.views.touch, Logger: b.log, Gate: b.gate, Registerer: o.Registerer,
	})
	return err
}

func (b *builder) health() (err error) {
	o, s := &b.o, b.s
	s.health, err = health.New(health.Options{
		Self: o.Self, Boot: o.Boot, Seed: uint64(o.Rand() * (1 << 53)), Timing: *o.Timing, Now: o.Now,
		Others: s.Members.hosts.others, Lease: s.Lease.elector.Status,
		Send:     func(a swim.Send) { s.beats.sendSwim(a) },
		Changed:  s.Members.healthChanged,
		Informed: func(n cluster.NodeID, eligible bool) { s.listener.informed(n, eligible) },
		Answered: func(n cluster.NodeID, sent, trip time.Duration) { s.listener.answered(n, sent, trip) },
		Logger:   b.log, Registerer: o.Registerer,
	})
	return err
}

func (b *builder) clocks() (err error) {
	o, s := &b.o, b.s
	elector := s.Lease.elector
	s.clocks, err = clocks.New(clocks.Options{
		Now: o.Now, Mono: o.Mono, Wall: o.Wall, Lease: o.Timing.Lease, Tolerance: s.net.Tolerance, Read: o.OnLoop,
		Deaf: s.health.Shift, Suspended: func() { elector.Step(lease.Suspended{}) }, Failing: elector.SetFailing,
		Changed: s.views.touch, Logger: b.log, Registerer: o.Registerer,
	})
	return err
}

func (b *builder) prober() (err error) {
	o, s, hosts := &b.o, b.s, b.s.Members.hosts
	s.prober, err = pathmtu.New(pathmtu.Options{
		MTU: o.MTU, Rand: o.Rand, Large: s.health.Large,
		Peer: func(n cluster.NodeID) (pathmtu.Peer, bool) {
			p := hosts.peers[n]
			if p == nil {
				return pathmtu.Peer{}, false
			}
			return pathmtu.Peer{
				Path: &p.path, Onion: s.net.Paths().Onion(n), Answered: p.rtt.Answered(),
				Answers: p.rtt.Measured() && s.health.Of(n) == cluster.Alive,
			}, true
		},
		Member: func(n cluster.NodeID) (cluster.Member, bool) { return s.net.Directory().Member(n) },
		Send:   func(m cluster.Member, size int, now time.Duration) error { return s.beats.sendFull(m, size, now) },
		Found: func(n cluster.NodeID, from, to int) {
			s.views.touch()
			if f := o.OnBlackhole; f != nil && to < from {
				s.views.notifier.Notice(func() { f(n, from, to) })
			}
		},
		Logger: b.log, Gate: b.gate, Registerer: o.Registerer,
	})
	return err
}

// distances makes what knows how far the others are.
func (b *builder) distances() (err error) {
	b.far, err = distance.New(b.o.Self, b.o.Registerer)
	return err
}

// heartbeats makes the parts that send heartbeats and that take those of the others.
func (b *builder) heartbeats() {
	o, s, t := &b.o, b.s, b.o.Timing
	m, elector := s.Members, s.Lease.elector
	log := ownlog.New(o.Log, t.Heartbeat)
	says := &statement{
		version: o.Version, profile: o.Profile, local: o.Local, hosts: m.hosts, health: s.health, net: s.net, elector: elector,
		records: m.records, shares: s.shares, log: log, far: b.far, round: func() int { return s.beats.schedule.round },
	}
	s.beats = &heartbeats{
		schedule: &schedule{
			every: t.Heartbeat, suspect: t.Suspect, rand: o.Rand, hosts: m.hosts, health: s.health, elector: elector,
			paths: s.net.Paths(), waiting: m.waiting,
		},
		waiting: m.waiting, says: says, hosts: m.hosts, health: s.health, endpoints: m.endpoints, net: s.net, records: m.records,
		shares: s.shares, observed: o.Observed, interfaces: o.Interfaces, log: b.log, gate: b.gate,
	}
	s.listener = &listener{
		now: o.Now, hosts: m.hosts, compat: &compat{version: o.Version, profile: o.Profile, views: s.views, log: b.log},
		health: s.health, net: s.net, elector: elector, records: m.records, shares: s.shares, endpoints: m.endpoints, log: log,
		prober: s.prober, beats: s.beats, rtt: b.m.rtt, far: b.far,
	}
}

// views makes what finds second processes of a host, and what makes views.
func (b *builder) views() {
	o, s := &b.o, b.s
	m, elector := s.Members, s.Lease.elector
	s.duplicates = &duplicates{
		boot: o.Boot, found: o.OnDuplicate, hosts: m.hosts, net: s.net, elector: elector, views: s.views, notifier: m.notifier,
		count: b.m.duplicates, log: b.log,
	}
	maker := &viewMaker{
		version: o.Version, profile: o.Profile, hosts: m.hosts, local: s.local, health: s.health, net: s.net, elector: elector, records: m.records,
		shares: s.shares, endpoints: m.endpoints, log: s.beats.says.log, clocks: s.clocks, duplicates: s.duplicates, far: b.far, m: b.m,
	}
	s.views.make = maker.view
}

// connect gives membership and lease the parts that were made after them.
func (b *builder) connect() {
	s, m := b.s, b.s.Members
	m.elector, m.health, m.shares, m.loop, m.views = s.Lease.elector, s.health, s.shares, s.loop, s.views
	m.forget = []func(cluster.NodeID){
		s.net.Forget, m.records.Forget, m.waiting.forget, s.shares.Forget, m.endpoints.Forget, s.health.Forget, b.far.Forget,
		func(n cluster.NodeID) { b.m.rtt.DeleteLabelValues(string(n)) },
	}
	s.Lease.health, s.Lease.views, s.Lease.loop = s.health, s.views, s.loop
}
