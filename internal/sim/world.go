package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/lease"
)

const (
	// maxNodes bounds a simulated cluster.
	maxNodes = 7
	// maxDrift is by how much the rate of a clock may be wrong.
	maxDrift = 0.01
)

type kind uint8

const (
	evTick kind = iota
	evMessage
	evHeartbeat
	evBeat // time to send heartbeats
	evSynced
	evReady
	evQuiesced
	evSuspended
	evWrite
	evFault
	evUndo
	evPhase
)

type event struct {
	epoch uint64
	at    time.Duration
	kind  kind
	node  int8
	from  int8
	flag  bool   // heartbeat: sender is eligible
	pub   bool   // heartbeat: sender publishes
	lost  bool   // heartbeat: sender lost its vote record
	gen   uint32 // of the node; an event of an earlier life is void
	term  cluster.Term
	msg   *lease.Message
	undo  func()
}

// World is one simulated cluster.
type World struct {
	Seed    uint64
	Profile cluster.Profile
	// Trace, if set, gets a line for everything that happens.
	Trace func(string)

	rng    *rand.Rand
	now    time.Duration
	seq    uint64
	queue  []ref   // binary heap
	events []event // slab that queue points into
	free   []int32 // unused entries of events
	timing lease.Timing
	nodes  []*node

	grown    bool         // starts with one voter
	lossy    bool         // an fsync may lie
	leaves   bool         // a host may leave for good
	left     *node        // the one that did
	operated bool         // an operator chooses voters and modes
	setting  cluster.Mode // of every host's own configuration

	// Network. cut[a][b] counts the reasons why nothing goes from a to b.
	loss, dup    float64
	delay, extra time.Duration
	cut          [maxNodes][maxNodes]uint8
	zones        zones

	faultEnd time.Duration
	calm     bool
	script   int  // position in the final examination
	again    bool // the first look after the heal found no holder

	duty       dutyJudge
	terms      map[cluster.Term]int
	fence      cluster.Term
	stable     cluster.VoterConfig // newest that was stable, by majority
	releasedAt time.Duration
	crashedAt  time.Duration
	voluntary  time.Duration // last handover that nobody asked for

	hist *history // nil: nothing is recorded
	res  Result
}

// Result is what a run showed.
type Result struct {
	Seed       uint64
	Profile    cluster.Profile
	Nodes      int
	Simulated  time.Duration
	Steps      uint64 // of the lease cores
	Events     uint64 // messages, timers, faults
	Violations []string
	// Handover and Failover are the times from a release, and from a crash
	// of the holder, to the next holder in a healthy network; 0: not measured.
	Handover, Failover time.Duration
	Late               bool          // it took longer after a release, as packets of it were lost; with zones only
	ZoneLost           time.Duration // from the loss of the holder's zone to the next holder
	RTT                time.Duration // between the zones that are farthest apart; 0: there are none
	Terms              int
}

// NewWorld builds the cluster that seed stands for.
func NewWorld(seed uint64) *World { return newWorld(seed, 0) }

func newWorld(seed uint64, zoneCount int) *World {
	w := &World{zones: zones{count: zoneCount, lost: -1}, Seed: seed, rng: rand.New(rand.NewPCG(seed, 0x736b65696e)), terms: map[cluster.Term]int{}}
	w.setProfile([]cluster.Profile{cluster.ProfileLAN, cluster.ProfileFast, cluster.ProfileClassic}[w.rng.IntN(3)])
	w.calmNet()
	n := []int{3, 3, 3, 3, 3, 3, 5, 5, 5, 7, 7, 2, 2, 1, 4, 3}[w.rng.IntN(16)]
	w.grown = w.rng.IntN(4) == 0
	if w.grown {
		n = 2 + w.rng.IntN(4)
	}
	w.lossy = w.rng.IntN(4) == 0
	w.operated = w.rng.IntN(4) == 0
	w.leaves = n > 1 && w.rng.IntN(min(n, 6)) == 0
	w.setting = cluster.ModeAuto
	switch w.rng.IntN(12) {
	case 0:
		w.setting = cluster.ModeAvailable
	case 1:
		w.setting = cluster.ModeQuorum
	}
	if zoneCount > 0 {
		n = w.zoned()
	}
	w.res = Result{Seed: seed, Profile: w.Profile, Nodes: n, RTT: w.zones.rtt}
	w.addNodes(n)
	w.faultEnd = 24 * w.timing.Lease
	w.push(event{at: w.between(0, w.timing.Lease), kind: evFault, node: -1})
	w.push(event{at: w.faultEnd, kind: evPhase, node: -1})
	return w
}

// setProfile gives all hosts a profile.
func (w *World) setProfile(p cluster.Profile) {
	w.Profile = p
	timing, err := lease.TimingFor(p)
	if err != nil {
		panic("sim: " + err.Error())
	}
	// A short hysteresis shows in a short run what a long one does.
	timing.PreemptDelay, timing.MinTenure = 2*timing.Lease, 3*timing.Lease
	timing.PreemptCap, timing.LossWindow = 4*timing.Lease, 20*timing.Lease
	w.timing = timing
}

func (w *World) addNodes(n int) {
	prio := w.rng.Perm(n)
	var all []cluster.NodeID
	for i := range n {
		all = append(all, cluster.NodeID(fmt.Sprintf("n%d", i+1)))
	}
	config := cluster.VoterConfig{Epoch: 1, Voters: all, Mode: w.modeFor(n)}
	if w.grown {
		config = cluster.VoterConfig{Epoch: 1, Voters: all[:1], Mode: cluster.ModeSingle}
	}
	witness := -1
	if n >= 3 && w.rng.IntN(6) == 0 {
		witness = 1 + w.rng.IntN(n-1)
	}
	drift := maxDrift * w.rng.Float64()
	if w.rng.IntN(2) == 0 {
		drift = maxDrift
	}
	for i := range n {
		nd := &node{w: w, i: i, id: all[i], priority: uint32(10 * (prio[i] + 1)), witness: i == witness, fresh: true, ok: true, granted: map[cluster.Term]cluster.NodeID{}}
		nd.rate = 1 + drift*(2*w.rng.Float64()-1)
		if w.rng.IntN(2) == 0 {
			nd.rate = 1 + drift*float64(2*w.rng.IntN(2)-1)
		}
		at := w.between(0, 200*time.Millisecond)
		if !w.grown || i == 0 {
			nd.disk.Config = config
		} else {
			at = w.between(0, 12*w.timing.Lease)
		}
		w.nodes = append(w.nodes, nd)
		w.later(at, nd.start)
	}
}

// majority reports whether holders decide by majority from first to last.
func (w *World) majority() bool {
	return !w.grown && !w.operated && !w.leaves && len(w.nodes) > 2 && w.setting != cluster.ModeAvailable
}

// modeFor is the mode of n voters that nobody interfered with.
func (w *World) modeFor(n int) cluster.Mode {
	if n <= 1 || w.setting == cluster.ModeAuto {
		return cluster.AutoMode(n)
	}
	return w.setting
}

// Run plays the world to its end.
func (w *World) Run() Result {
	for len(w.queue) > 0 && w.script >= 0 && len(w.res.Violations) == 0 {
		e := w.pop()
		w.now = e.at
		if e.kind != evWrite {
			w.res.Events++
		}
		w.dispatch(&e)
	}
	w.res.Simulated = w.now
	w.res.Terms = len(w.terms)
	return w.res
}

func (w *World) dispatch(e *event) {
	switch e.kind {
	case evFault:
		w.fault()
		return
	case evUndo:
		e.undo()
		return
	case evPhase:
		w.examine()
		return
	case evWrite:
		w.hist.arriveWrite(w.now)
		return
	}
	if n := w.nodes[e.node]; n.up && n.gen == e.gen {
		n.arrive(e)
	}
}

func (w *World) later(d time.Duration, f func()) {
	w.push(event{at: w.now + d, kind: evUndo, node: -1, undo: f})
}

func (w *World) tracef(format string, args ...any) {
	if w.Trace != nil {
		w.Trace(fmt.Sprintf("%12s ", w.now) + fmt.Sprintf(format, args...))
	}
}

func (w *World) violate(format string, args ...any) {
	v := fmt.Sprintf(format, args...)
	w.tracef("VIOLATION %s", v)
	w.res.Violations = append(w.res.Violations, fmt.Sprintf("at %s: %s", w.now, v))
}

func (w *World) between(lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(w.rng.Int64N(int64(hi-lo)))
}

// lat is one network delay; drop says that nothing arrives.
func (w *World) lat(from, to int) (d time.Duration, drop bool) {
	if w.cut[from][to] > 0 || (w.loss > 0 && w.rng.Float64() < w.loss) {
		return 0, true
	}
	d = w.zones.between(from, to) + w.between(200*time.Microsecond, w.delay)
	if w.extra > 0 {
		d += w.between(0, w.extra)
	}
	return d, false
}

func (w *World) calmNet() {
	w.loss, w.dup, w.delay, w.extra = w.lossAtBest(), 0.01, 4*time.Millisecond, 0
}

// lossAtBest is how many packets are lost when nothing is wrong.
func (w *World) lossAtBest() float64 {
	if w.zones.count > 0 {
		return zoneLoss
	}
	return 0
}

// ref is a place in the queue. It holds no pointer, so moving it is cheap.
type ref struct {
	at  time.Duration
	seq uint64
	i   int32
}

func (a ref) before(b ref) bool { return a.at < b.at || (a.at == b.at && a.seq < b.seq) }

// push and pop are a binary heap by (at, seq).
func (w *World) push(e event) {
	var slot int32
	if n := len(w.free); n > 0 {
		slot, w.free = w.free[n-1], w.free[:n-1]
		w.events[slot] = e
	} else {
		slot = int32(len(w.events))
		w.events = append(w.events, e)
	}
	w.seq++
	q := append(w.queue, ref{at: e.at, seq: w.seq, i: slot})
	i := len(q) - 1
	for i > 0 {
		p := (i - 1) / 2
		if !q[i].before(q[p]) {
			break
		}
		q[i], q[p] = q[p], q[i]
		i = p
	}
	w.queue = q
}

func (w *World) pop() event {
	q := w.queue
	top := q[0].i
	last := len(q) - 1
	q[0] = q[last]
	q = q[:last]
	for i := 0; ; {
		c := 2*i + 1
		if c >= len(q) {
			break
		}
		if c+1 < len(q) && q[c+1].before(q[c]) {
			c++
		}
		if !q[c].before(q[i]) {
			break
		}
		q[i], q[c] = q[c], q[i]
		i = c
	}
	w.queue = q
	w.free = append(w.free, top)
	return w.events[top]
}
