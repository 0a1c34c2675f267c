package eventlog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/replicate"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/internal/simnet"
	"github.com/skein-project/skein/internal/wait"
)

// simWorld is a cluster on fake time whose lease is granted by an oracle, and
// what must be true of its logs.
type simWorld struct {
	hosts []*simHost
	cfg   cluster.VoterConfig
	net   *simnet.Network

	mu    sync.Mutex
	err   error // the first violation
	quiet bool  // nobody appends any more
	// compacts: holders take snapshots, and what these hold is dropped.
	compacts bool
	closed   map[[2]cluster.NodeID]bool
	term     cluster.Term // the highest that was voted for
	acked    map[event.SourceID]map[uint64]cluster.Hash
	seen     map[event.SourceID]map[uint64]cluster.Hash // of all logs
	stable   []stableEvent
	starts   []simStart
	states   map[[16]byte]cluster.Hash
	did      map[string]int
	said     []string // the last that logs and mishaps said
}

// stableEvent is an event that WaitStable vouched for.
type stableEvent struct {
	src  event.SourceID
	seq  uint64
	hash cluster.Hash
	term cluster.Term
	job  job.ID    // whose submission it is
	cut  event.Cut // of a term_start
	// loose: the disk of its writer was once restored from an image, which no
	// promise covers.
	loose bool
}

// simStart is the cut of a term.
type simStart struct {
	term cluster.Term
	cut  event.Cut
}

const simLease = 5 * time.Second

func (w *simWorld) failf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failLocked(format, args...)
}

func (w *simWorld) failLocked(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format+"\n%s", append(args, strings.Join(w.said, ""))...)
	}
}

// Write keeps what a log says, for the report of a violation.
func (w *simWorld) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.said) == 60 {
		w.said = w.said[1:]
	}
	w.said = append(w.said, time.Now().Format("04:05.000 ")+string(line))
	return len(line), nil
}

func (w *simWorld) count(what string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.did[what] += n
}

func (w *simWorld) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *simWorld) host(id cluster.NodeID) *simHost {
	i := slices.IndexFunc(w.hosts, func(h *simHost) bool { return h.id == id })
	return w.hosts[i]
}

func (w *simWorld) others(h *simHost) (out []cluster.NodeID) {
	for _, o := range w.hosts {
		if o != h {
			out = append(out, o.id)
		}
	}
	return out
}

func (w *simWorld) mayAct(h *simHost, t cluster.Term) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return h.term == t && time.Now().Before(h.until)
}

// votersLocked are the hosts that h can win for a term now: they have promised
// no higher one.
func (w *simWorld) votersLocked(h *simHost, t cluster.Term) (out []*simHost) {
	for _, o := range w.hosts {
		if o.life != nil && o.promised.Load() <= uint64(t) &&
			!w.closed[[2]cluster.NodeID{h.id, o.id}] && !w.closed[[2]cluster.NodeID{o.id, h.id}] {
			out = append(out, o)
		}
	}
	return out
}

// elect grants, renews and ends the lease: in terms that only rise, each by the
// promises of a majority that its holder can reach. Now and then it grants a
// term while another holder still believes in its own, as where clocks lie:
// the log must not need them.
func (w *simWorld) elect(rng *rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	held := false
	for _, h := range w.hosts {
		if !now.Before(h.until) {
			continue
		}
		held = true
		switch {
		case rng.IntN(80) == 0:
			h.until = now // handed over
		case h.life != nil && len(w.votersLocked(h, h.term)) >= w.cfg.Majority():
			h.until = now.Add(simLease)
		}
	}
	if held && rng.IntN(20) > 0 {
		return
	}
	h := w.hosts[rng.IntN(len(w.hosts))]
	grants := w.votersLocked(h, w.term)
	if h.life == nil || !h.life.ready.Load() || len(grants) < w.cfg.Majority() {
		return
	}
	rng.Shuffle(len(grants), func(i, j int) { grants[i], grants[j] = grants[j], grants[i] })
	grants = grants[:w.cfg.Majority()+rng.IntN(len(grants)-w.cfg.Majority()+1)]
	w.term++
	var ids []cluster.NodeID
	for _, g := range grants {
		g.promised.Store(uint64(w.term))
		ids = append(ids, g.id)
	}
	h.term, h.until = w.term, now.Add(simLease)
	life, term := h.life, w.term
	life.wg.Go(func() { w.lead(life, term, ids) })
}

// lead does what a new holder does before it acts.
func (w *simWorld) lead(life *simLife, term cluster.Term, grants []cluster.NodeID) {
	ctx, cancel := context.WithTimeout(life.ctx, patience)
	defer cancel()
	w.mu.Lock()
	before := len(w.stable)
	w.mu.Unlock()
	if err := life.log.CatchUp(ctx, term, grants, w.cfg.Majority()); err != nil {
		return
	}
	cut := life.log.Cut()
	w.begin(simStart{term: term, cut: cut}, before)
	events, err := life.log.Append(ctx, []event.Draft{{
		Term: term, Kind: event.KindTermStart,
		Body: event.TermStart{Term: term, Voters: w.cfg.Voters, Grants: grants, Cut: cut},
	}})
	if err != nil {
		return
	}
	w.ack(life, events)
	if _, err := life.log.WaitStable(ctx, events[0].Seq); err != nil {
		return
	}
	w.nowStable(life, events[0])
	rng := rand.New(rand.NewPCG(uint64(term), 77))
	for ctx := life.ctx; w.mayAct(life.h, term); {
		w.add(ctx, life, randomWork(life.log, rng, term), rng)
		time.Sleep(time.Duration(rng.Int64N(int64(time.Second))))
	}
}

// begin checks that a cut holds every event that was stable in an older term,
// and facts that were stable before the holder caught up.
func (w *simWorld) begin(s simStart, before int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.did["terms"]++
	for i, e := range w.stable {
		if !e.loose && (e.term > 0 && e.term < s.term || e.term == 0 && i < before) && s.cut.Seq(e.src) < e.seq {
			w.failLocked("I4: event %d of %s, stable in term %d, lies beyond the cut of term %d at %d", e.seq, e.src, e.term, s.term, s.cut.Seq(e.src))
		}
		for _, m := range e.cut {
			if e.term < s.term && s.cut.Seq(m.Source) < m.Seq && len(w.hostOf(m.Source).rolled) == 0 {
				w.failLocked("I4: event %d of %s, in the cut of stable term %d, lies beyond that of term %d", m.Seq, m.Source, e.term, s.term)
			}
		}
	}
	w.starts = append(w.starts, s)
}

func (w *simWorld) nowStable(life *simLife, e event.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.did["stable"]++
	s := stableEvent{src: e.Source, seq: e.Seq, hash: e.Hash, term: e.Term, loose: life.h.rolled[e.Source]}
	if e.Kind == event.KindTermStart {
		for _, start := range w.starts {
			if start.term == e.Term {
				s.cut = start.cut
			}
		}
	}
	if e.Kind == event.KindJobSubmitted {
		s.job = job.ID(fmt.Sprintf("t%d", e.Term))
	}
	for _, start := range w.starts {
		if !s.loose && s.term > 0 && s.term < start.term && start.cut.Seq(s.src) < s.seq {
			w.failLocked("I4: event %d of %s became stable in term %d beyond the cut of term %d at %d", s.seq, s.src, s.term, start.term, start.cut.Seq(s.src))
		}
	}
	w.stable = append(w.stable, s)
}

func (w *simWorld) ack(life *simLife, events []event.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range events {
		if w.acked[e.Source] == nil {
			w.acked[e.Source] = map[uint64]cluster.Hash{}
		}
		w.did["acknowledged"]++
		w.acked[e.Source][e.Seq] = e.Hash
		w.seeLocked(life.h, e)
	}
}

// seeLocked notes an event as some log has it: there is one history.
func (w *simWorld) seeLocked(h *simHost, e event.Event) {
	if w.seen[e.Source] == nil {
		w.seen[e.Source] = map[uint64]cluster.Hash{}
	}
	if old, ok := w.seen[e.Source][e.Seq]; ok && old != e.Hash && !w.hostOf(e.Source).rolled[e.Source] {
		w.failLocked("I5: event %d of %s has two contents; one is at %s", e.Seq, e.Source, h.id)
	}
	w.seen[e.Source][e.Seq] = e.Hash
}

func (w *simWorld) hostOf(src event.SourceID) *simHost { return w.host(src.Node) }

// checkAcked looks for what a host acknowledged on the disk that it starts with.
func (w *simWorld) checkAcked(h *simHost, l *Log) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if src := l.Source(); len(h.rolled) == 0 && src.Inc != 1 {
		w.failLocked("I5: %s goes on as %s although it lost nothing", h.id, src)
	}
	for src, events := range w.acked {
		if src.Node != h.id || h.rolled[src] {
			continue
		}
		found, kept := 0, l.Oldest()[src]
		for seq := range events {
			if seq <= kept {
				found++ // in a snapshot
			}
		}
		for e, err := range l.Read(src, kept+1) {
			if err != nil {
				w.failLocked("%s: read %s: %v", h.id, src, err)
			}
			if want, ok := events[e.Seq]; ok && want == e.Hash {
				found++
			}
		}
		if found < len(events) {
			w.failLocked("%s lost %d of %d acknowledged events of %s", h.id, len(events)-found, len(events), src)
		}
	}
}

// work appends facts for as long as the process lives, once its own chain is
// checked as the daemon does it.
func (w *simWorld) work(life *simLife) {
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(life.h.id[0])))
	for life.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(life.ctx, 2*time.Second)
		answered, err := life.log.CheckOwnHead(ctx, w.others(life.h))
		cancel()
		if err == nil && answered+1 >= w.cfg.Majority() {
			break
		}
		_ = wait.For(life.ctx, 200*time.Millisecond)
	}
	life.ready.Store(true)
	for i := 0; life.ctx.Err() == nil; i++ {
		w.add(life.ctx, life, []event.Draft{note(i)}, rng)
		_ = wait.For(life.ctx, time.Duration(rng.Int64N(int64(3*time.Second))))
	}
}

// add appends drafts, and may wait until they are stable.
func (w *simWorld) add(ctx context.Context, life *simLife, drafts []event.Draft, rng *rand.Rand) {
	w.mu.Lock()
	quiet := w.quiet
	w.mu.Unlock()
	if quiet || len(drafts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	events, err := life.log.Append(ctx, drafts)
	if err != nil {
		return
	}
	w.ack(life, events)
	if rng.IntN(3) == 0 {
		return
	}
	if last := events[len(events)-1]; life.log.Source() == last.Source {
		if _, err := life.log.WaitStable(ctx, last.Seq); err == nil {
			w.nowStable(life, last)
		}
	}
}

// randomWork is what a holder may do to the job of its term or of an older one.
func randomWork(l *Log, rng *rand.Rand, term cluster.Term) []event.Draft {
	id := job.ID(fmt.Sprintf("t%d", term-cluster.Term(rng.Uint64N(min(3, uint64(term))))))
	known := false
	l.View(func(s *state.State) { _, known = s.Job(id) })
	draft := func(k event.Kind, body any) []event.Draft {
		return []event.Draft{{Term: term, Kind: k, Body: body}}
	}
	if !known {
		spec := job.Spec{Key: string(id), Artefact: cluster.Hash{1}, Iterations: 100, Chunk: 10}.WithDefaults()
		id = job.ID(fmt.Sprintf("t%d", term))
		return draft(event.KindJobSubmitted, event.JobSubmitted{Job: id, Spec: spec, Owner: "uid:1", Chunks: spec.Chunks()})
	}
	chunk, attempt := rng.IntN(10), 1+rng.IntN(3)
	switch rng.IntN(8) {
	case 0:
		return draft(event.KindChunkFailed, event.ChunkFailed{Job: id, Chunk: chunk, Attempt: attempt, Worker: "w", Reason: "x"})
	case 1:
		return draft(event.KindChunkReclaimed, event.ChunkReclaimed{Job: id, Chunk: chunk, Attempt: attempt, Worker: "w"})
	case 2:
		return draft(event.KindJobStopped, event.JobStopped{Job: id, Actor: "uid:1"})
	case 3, 4, 5:
		m := job.Metric{N: 10, Mean: rng.Float64(), M2: 1, Min: -1, Max: 2}
		return draft(event.KindChunkAccepted, event.ChunkAccepted{
			Job: id, Chunk: chunk, Attempt: attempt, Worker: "w", Seconds: 1,
			Result: job.ChunkResult{Iterations: 10, Metrics: map[string]job.Metric{"x": m}},
		})
	}
	return draft(event.KindChunksAssigned, event.ChunksAssigned{Job: id, Assignments: []job.Attempt{{Chunk: chunk, Number: attempt, Worker: "w"}}})
}

// compare checks that logs that know the same have the same state, now and
// whenever another log knew that much.
func (w *simWorld) compare() {
	for _, h := range w.hosts {
		w.mu.Lock()
		life := h.life
		w.mu.Unlock()
		if life == nil {
			continue
		}
		digest := life.log.Digest()
		var hash cluster.Hash
		life.log.View(func(s *state.State) { hash = s.Hash() })
		if life.log.Digest() != digest {
			continue
		}
		w.mu.Lock()
		if old, ok := w.states[digest]; ok && old != hash {
			w.failLocked("I6: %s has another state than a log with equal heads", h.id)
		}
		w.states[digest] = hash
		w.mu.Unlock()
	}
}

// mishap does one random harm, or mends one.
func (w *simWorld) mishap(rng *rand.Rand, restores bool) {
	h := w.hosts[rng.IntN(len(w.hosts))]
	name := "heal"
	switch k := rng.IntN(12); {
	case k < 2:
		name = "split"
		w.split(rng)
	case k < 3:
		name = "one way"
		o := w.hosts[rng.IntN(len(w.hosts))]
		if o != h {
			w.cut(h, o)
		}
	case k < 5:
		w.heal()
	case k < 8 && h.life != nil:
		name = "crash"
		h.crash(rng)
	case k < 9 && h.life != nil:
		name = "stop"
		h.stop()
	case k < 10:
		name = "clock"
		h.skew.Store(rng.Int64N(int64(4*time.Second)) - int64(2*time.Second))
		if rng.IntN(6) == 0 {
			name = "clock far ahead"
			h.skew.Store(int64(90 * time.Second))
		}
	case restores && w.abstaining() < (len(w.hosts)-1)/2:
		name = "photograph"
		if i := slices.IndexFunc(w.hosts, func(h *simHost) bool { return h.image != nil }); i < 0 {
			h.photograph()
		} else if rng.IntN(2) == 0 {
			name = "restore"
			w.hosts[i].restore(rng)
		}
	default:
		name = "start"
	}
	w.count(name, 1)
	fmt.Fprintf(w, "%s %s\n", name, h.id)
	for _, o := range w.hosts {
		if o.life == nil && (name == "start" || rng.IntN(2) == 0) {
			o.start()
		}
	}
}

// abstaining counts the hosts that vote no more.
func (w *simWorld) abstaining() (n int) {
	for _, h := range w.hosts {
		if h.promised.Load() == uint64(replicate.Abstaining) {
			n++
		}
	}
	return n
}

func (w *simWorld) cut(a, b *simHost) {
	w.net.Cut(a.net.Addr(), b.net.Addr())
	w.mu.Lock()
	w.closed[[2]cluster.NodeID{a.id, b.id}] = true
	w.mu.Unlock()
}

func (w *simWorld) split(rng *rand.Rand) {
	side := rng.IntN(1 << len(w.hosts))
	for i, a := range w.hosts {
		for j, b := range w.hosts {
			if side>>i&1 != side>>j&1 {
				w.cut(a, b)
			}
		}
	}
}

func (w *simWorld) heal() {
	w.net.Heal()
	w.mu.Lock()
	clear(w.closed)
	w.mu.Unlock()
}

// settle mends everything and waits until all logs know the same.
func (w *simWorld) settle() {
	w.heal()
	w.mu.Lock()
	w.quiet = true
	w.mu.Unlock()
	for _, h := range w.hosts {
		h.skew.Store(0)
		if h.life == nil {
			h.start()
		}
	}
	for range 300 {
		time.Sleep(time.Second)
		same := true
		for _, h := range w.hosts {
			if h.life == nil {
				return
			}
			same = same && h.life.log.Digest() == w.hosts[0].life.log.Digest()
		}
		if same {
			w.judge()
			return
		}
	}
	var text []string
	for _, h := range w.hosts {
		text = append(text, fmt.Sprintf("%s: forks %v, cut %v", h.id, h.life.log.Forks(), h.life.log.Cut()))
	}
	w.failf("the logs differ 5 min after the last repair:\n%s", strings.Join(text, "\n"))
}

// judge checks the end of a run: all logs hold the same events and mean the
// same, a fold from the beginning means that too, and nothing is missing.
func (w *simWorld) judge() {
	w.compare()
	var applied, void, malformed uint64
	for i, h := range w.hosts {
		l := h.life.log
		report, err := l.Verify(context.Background(), nil)
		if err != nil {
			w.failf("%s: %v", h.id, err)
			return
		}
		if report.StateHash != stateHash(l) {
			w.failf("%s: the fold from the beginning differs", h.id)
		}
		l.View(func(s *state.State) {
			a, v, m := s.Counts()
			if i > 0 && (a != applied || v != void || m != malformed) {
				w.failf("%s: %d events applied, %d void, %d malformed; elsewhere %d, %d, %d", h.id, a, v, m, applied, void, malformed)
			}
			applied, void, malformed = a, v, m
			for _, e := range w.stable {
				if _, ok := s.Job(e.job); e.job != "" && !e.loose && !ok {
					w.failf("%s: stable submission %s is void", h.id, e.job)
				}
			}
		})
		w.checkAcked(h, l)
		w.checkHeld(h)
		for _, f := range l.Forks() {
			if !w.hostOf(f.Source).rolled[f.Source] {
				w.failf("I5: %s knows of a fork of %s at %d", h.id, f.Source, f.Seq)
			}
			w.count("forks", 1)
		}
	}
	w.count("void", int(void))
}

// checkHeld reads all chains of a host.
func (w *simWorld) checkHeld(h *simHost) {
	w.mu.Lock()
	defer w.mu.Unlock()
	held := map[event.SourceID]map[uint64]cluster.Hash{}
	for e, err := range h.life.log.Between(h.life.log.Oldest(), h.life.log.Heads()) {
		if err != nil {
			w.failLocked("%s: export: %v", h.id, err)
			return
		}
		if held[e.Source] == nil {
			held[e.Source] = map[uint64]cluster.Hash{}
		}
		held[e.Source][e.Seq] = e.Hash
		w.seeLocked(h, e)
	}
	kept := h.life.log.Oldest()
	w.did["dropped"] += int(min(1, len(kept)))
	for _, e := range w.stable {
		if !e.loose && e.seq > kept[e.src] && held[e.src][e.seq] != e.hash {
			w.failLocked("%s lacks stable event %d of %s", h.id, e.seq, e.src)
		}
	}
}

// simulate runs one cluster for so long of fake time.
func simulate(t *testing.T, seed uint64, hosts int, long time.Duration, restores, compacts bool) (did map[string]int, err error) {
	rng := rand.New(rand.NewPCG(seed, 5))
	w := &simWorld{
		compacts: compacts,
		net:      simnet.New(seed, simnet.Link{Delay: time.Millisecond, Jitter: 3 * time.Millisecond}),
		closed:   map[[2]cluster.NodeID]bool{}, states: map[[16]byte]cluster.Hash{}, did: map[string]int{},
		acked: map[event.SourceID]map[uint64]cluster.Hash{}, seen: map[event.SourceID]map[uint64]cluster.Hash{},
	}
	var ids []cluster.NodeID
	for i := range hosts {
		id := cluster.NodeID(fmt.Sprint(string(rune('a' + i))))
		ids = append(ids, id)
		w.hosts = append(w.hosts, &simHost{
			w: w, id: id, dir: t.TempDir(), disk: newPowerFS(rand.New(rand.NewPCG(seed, 100+uint64(i)))),
			net: w.net.Host(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})), rolled: map[event.SourceID]bool{},
		})
	}
	w.cfg = voters(ids...)
	for _, h := range w.hosts {
		h.disk.slow = func() { time.Sleep(rand.N(5 * time.Millisecond)) }
		h.start()
	}
	end := time.Now().Add(long)
	oracle := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		rng := rand.New(rand.NewPCG(seed, 6))
		for tick := time.NewTicker(500 * time.Millisecond); ; {
			select {
			case <-tick.C:
				w.elect(rng)
				if rng.IntN(4) == 0 {
					w.compare()
				}
			case <-oracle:
				tick.Stop()
				return
			}
		}
	})
	for time.Now().Before(end) && w.failed() == nil {
		time.Sleep(time.Duration(rng.Int64N(int64(12 * time.Second))))
		w.mishap(rng, restores)
	}
	close(oracle)
	wg.Wait()
	if w.failed() == nil {
		w.settle()
	}
	for _, h := range w.hosts {
		h.stop()
	}
	return w.did, w.failed()
}

// TestClusterSimulation lets clusters of three and five hosts live on fake time
// through partitions, power cuts, clocks that are off, disks restored from old
// images and changes of term, while all of them append. Stable events must lie
// in every later cut, no acknowledged event may be lost, no host whose disk is
// sound may sign two histories, and logs with equal heads must have equal
// states. SKEIN_PROVE=1 lets each live for half an hour.
func TestClusterSimulation(t *testing.T) {
	seeds, long, first := uint64(3), 2*time.Minute, uint64(1)
	if os.Getenv("SKEIN_PROVE") != "" {
		seeds, long = 60, 30*time.Minute
	}
	if text := os.Getenv("SKEIN_SEED"); text != "" {
		var err error
		if first, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
		seeds = 1
	}
	if text := os.Getenv("SKEIN_SEEDS"); text != "" {
		var err error
		if seeds, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	total := map[string]int{}
	t.Run("seed", func(t *testing.T) {
		for seed := first; seed < first+seeds; seed++ {
			t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
				t.Parallel()
				did := simulateSeed(t, seed, long)
				mu.Lock()
				defer mu.Unlock()
				for name, n := range did {
					total[name] += n
				}
			})
		}
	})
	t.Logf("%d clusters of %s: %v", seeds, long, total)
}

func simulateSeed(t *testing.T, seed uint64, long time.Duration) (did map[string]int) {
	hosts, restores, compacts := 3, seed%3 == 0, seed%2 == 0
	if seed%4 == 2 {
		hosts = 5
	}
	err := errors.New("unfinished")
	synctest.Test(t, func(t *testing.T) { did, err = simulate(t, seed, hosts, long, restores, compacts) })
	if err != nil {
		t.Errorf("seed %d, %d hosts for %s: %v\n%v\nreplay: SKEIN_SEED=%d go test -run TestClusterSimulation ./eventlog", seed, hosts, long, err, did, seed)
	}
	return did
}
