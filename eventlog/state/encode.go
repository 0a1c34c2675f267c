package state

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// magic begins the encoding of a State; its last byte is the version.
const magic = "skstate\x03"

// ErrStale says that a State waits for Refold and means nothing until then.
var ErrStale = errors.New("state is stale: it must be folded again")

// encoder writes a State as bytes, as docs/state-format.md says: numbers as varints, clocks and floats in
// eight bytes with the highest first, texts after their length. The first time
// a host or a source occurs it is written out, and by its number from then on.
type encoder struct {
	b       []byte
	sum     hash.Hash // if not nil, b is fed to it now and then
	nodes   map[cluster.NodeID]uint64
	sources map[event.SourceID]uint64
}

// hashBuffer is how much is collected before it is hashed.
const hashBuffer = 64 << 10

func newEncoder(dst []byte) *encoder {
	return &encoder{b: dst, nodes: map[cluster.NodeID]uint64{"": 0}, sources: make(map[event.SourceID]uint64)}
}

func (e *encoder) num(v uint64)   { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) count(n int)    { e.num(uint64(n)) }
func (e *encoder) fixed(v uint64) { e.b = binary.BigEndian.AppendUint64(e.b, v) }

func (e *encoder) clock(v cluster.HLC) { e.fixed(uint64(v)) }
func (e *encoder) float(v float64)     { e.fixed(math.Float64bits(v)) }

func (e *encoder) flag(v bool) {
	if v {
		e.b = append(e.b, 1)
		return
	}
	e.b = append(e.b, 0)
}

func (e *encoder) text(s string) {
	e.count(len(s))
	e.b = append(e.b, s...)
}

func (e *encoder) node(n cluster.NodeID) {
	i, ok := e.nodes[n]
	if !ok {
		i = uint64(len(e.nodes))
		e.nodes[n] = i
		e.num(i)
		e.text(string(n))
		return
	}
	e.num(i)
}

func (e *encoder) nodeList(list []cluster.NodeID) {
	e.count(len(list))
	for _, n := range list {
		e.node(n)
	}
}

func (e *encoder) source(s event.SourceID) {
	i, ok := e.sources[s]
	if !ok {
		i = uint64(len(e.sources))
		e.sources[s] = i
		e.num(i)
		e.node(s.Node)
		e.num(s.Inc)
		return
	}
	e.num(i)
}

func (e *encoder) key(k key) {
	e.clock(k.hlc)
	e.source(k.src)
	e.num(k.seq)
}

// moments writes a metric without its sketch.
func (e *encoder) moments(m job.Metric) {
	e.num(m.N)
	if m.N == 0 {
		return
	}
	for _, v := range [...]float64{m.Mean, m.M2, m.Min, m.Max} {
		e.float(v)
	}
}

// sketch writes a sketch that may be missing.
func (e *encoder) sketch(s *job.Sketch) {
	e.flag(s != nil)
	if s != nil {
		e.b = appendSketch(e.b, s)
	}
}

// appendSketch appends the canonical bytes of a sketch.
func appendSketch(b []byte, s *job.Sketch) []byte {
	b = binary.AppendUvarint(b, uint64(s.Level))
	b = binary.AppendUvarint(b, s.Zero)
	for _, side := range [...][]int64{s.Below, s.Above} {
		b = binary.AppendUvarint(b, uint64(len(side)/2))
		for i := 0; i+1 < len(side); i += 2 {
			if i == 0 {
				b = binary.AppendUvarint(b, uint64(side[0]+indexShift))
			} else {
				b = binary.AppendUvarint(b, uint64(side[i]-side[i-2]))
			}
			b = binary.AppendUvarint(b, uint64(side[i+1]))
		}
	}
	return b
}

// indexShift makes every index of a bucket positive.
const indexShift = 1 << 14

// flush bounds the memory of a hash.
func (e *encoder) flush(above int) {
	if e.sum != nil && len(e.b) > above {
		e.sum.Write(e.b)
		e.b = e.b[:0]
	}
}

// register writes a value if it was ever set.
func register[T any](e *encoder, s stamped[T], write func(T)) {
	e.flag(!s.at.isZero())
	if !s.at.isZero() {
		e.key(s.at)
		write(s.v)
	}
}

// AppendBinary appends the canonical bytes of the whole State to dst: equal
// wherever the same events were applied, whatever their order, so also for a
// State that began with a snapshot. A stale State has none.
//
// They are magic, the length of the meaning in eight bytes, the meaning, whose
// hash Hash is, and what is needed to go on: positions, fences, and the events
// that wait for a submission. A fence of a lower term than settled says is not
// among them, nor are submissions that lost: both follow from the rest.
func (s *State) AppendBinary(dst []byte) ([]byte, error) {
	if s.stale {
		return dst, ErrStale
	}
	dst = append(dst, magic...)
	at := len(dst)
	e := newEncoder(append(dst, make([]byte, 8)...))
	s.encodeMeaning(e)
	binary.BigEndian.PutUint64(e.b[at:], uint64(len(e.b)-at-8))
	e = newEncoder(e.b)
	s.encodeProgress(e)
	return e.b, nil
}

// Hash is the SHA-256 of "state3" and the meaning of the State in canonical
// bytes: equal on every host that applied the same events, whatever their
// order, and different when a job, a term, a member, an action or the voters
// differ. Positions of sources are not part of it: an event without effect
// leaves it unchanged.
func (s *State) Hash() cluster.Hash {
	e := newEncoder([]byte("state3"))
	e.sum = sha256.New()
	s.encodeMeaning(e)
	e.flush(0)
	return cluster.Hash(e.sum.Sum(nil))
}

func (s *State) encodeMeaning(e *encoder) {
	e.count(len(s.members))
	for _, n := range slices.Sorted(maps.Keys(s.members)) {
		e.node(n)
		s.members[n].encode(e)
	}
	e.count(len(s.actions))
	for _, a := range s.actions {
		e.key(a.at)
		e.text(string(a.v.Kind))
		e.text(a.v.Actor)
		e.text(a.v.Subject)
		e.text(a.v.Reason)
	}
	e.count(len(s.published))
	for _, p := range s.published {
		e.key(p.at)
		e.flag(p.v.Publishing)
		e.num(uint64(p.v.Term))
		e.node(p.v.Publisher)
		e.text(p.v.Why)
	}
	s.encodeTerms(e)
	register(e, s.config, func(c cluster.VoterConfig) {
		b, err := json.Marshal(c)
		if err != nil {
			panic("state: a valid voter config cannot be encoded: " + err.Error())
		}
		e.text(string(b))
	})
	e.count(len(s.fences.forks))
	for _, id := range slices.SortedFunc(maps.Keys(s.fences.forks), event.SourceID.Compare) {
		e.source(id)
		e.num(s.fences.forks[id])
	}
	s.encodeGroups(e)
	s.encodeOnions(e)
	jobs := s.byID()
	e.count(len(jobs))
	for _, j := range jobs {
		j.encode(e)
	}
}

// byID are the jobs by their ids.
func (s *State) byID() []*foldedJob {
	jobs := s.known()
	slices.SortFunc(jobs, func(a, b *foldedJob) int { return strings.Compare(string(a.id), string(b.id)) })
	return jobs
}

func (m *member) encode(e *encoder) {
	register(e, m.joined, func(a admission) {
		e.node(a.sponsor)
		e.text(string(a.idPub))
		e.text(a.ip4)
		e.text(a.invite)
	})
	register(e, m.started, func(b event.HostStarted) {
		e.text(b.Version)
		e.num(b.Boot)
	})
	register(e, m.expires, func(v int64) { e.fixed(uint64(v)) })
	register(e, m.wgPub, func(v []byte) { e.text(string(v)) })
	register(e, m.health, func(v cluster.Health) { e.text(string(v)) })
	register(e, m.left, e.text)
	register(e, m.removed, func(r removal) {
		e.text(r.actor)
		e.text(r.reason)
	})
	register(e, m.publishing, e.flag)
	register(e, m.disk, e.text)
}

func (s *State) encodeTerms(e *encoder) {
	e.num(s.older.terms)
	if s.older.terms > 0 {
		e.num(s.older.splits)
		e.num(uint64(s.older.first.term))
		e.key(s.older.first.at)
	}
	terms := s.termKeys()
	e.count(len(terms))
	for _, k := range terms {
		info := s.terms[k]
		e.num(uint64(k.term))
		e.key(k.at)
		e.node(info.previous)
		e.nodeList(info.grants)
		e.nodeList(info.voters)
		e.text(string(info.profile))
		e.flag(info.split)
	}
	e.count(len(s.releases))
	for _, n := range slices.Sorted(maps.Keys(s.releases)) {
		e.node(n)
		e.count(len(s.releases[n]))
		for _, r := range s.releases[n] {
			e.num(uint64(r.term))
			e.key(r.at)
			e.node(r.successor)
			e.text(r.reason)
		}
	}
}

func (j *foldedJob) encode(e *encoder) {
	e.text(string(j.id))
	encodeSpec(e, j.spec)
	e.text(j.owner)
	e.key(j.submittedAt)
	register(e, j.queued, e.text)
	register(e, j.stop, func(v stop) {
		e.text(v.actor)
		e.text(v.reason)
		e.text(string(v.cause))
	})
	register(e, stamped[event.JobDone]{at: j.doneAt, v: j.done}, func(d event.JobDone) {
		e.text(string(d.State))
		e.text(d.Reason)
	})
	for _, n := range [...]int{j.attempts, j.failures, j.reclaims} {
		e.count(n)
	}
	e.clock(j.firstTry)
	e.clock(j.lastDone)
	e.count(len(j.recent))
	for _, f := range j.recent {
		e.key(f.key)
		e.count(f.Chunk)
		e.count(f.Attempt)
		e.node(f.Worker)
		e.text(f.Reason)
		e.flag(f.Final)
	}
	e.flag(j.sealed != nil)
	if j.sealed != nil {
		e.key(j.sealedAt)
		encodeResult(e, j.sealed)
		return
	}
	for i := range j.chunks {
		j.chunks[i].encode(e)
		e.flush(hashBuffer)
	}
	j.encodeMetrics(e)
}

func encodeSpec(e *encoder, s job.Spec) {
	e.text(s.Name)
	e.text(s.Key)
	e.text(s.Executor)
	if s.Executor == job.ExecutorExec {
		e.text(s.Program)
	}
	e.b = append(e.b, s.Artefact[:]...)
	e.b = append(e.b, s.Config[:]...)
	e.num(s.Iterations)
	e.num(s.Chunk)
	e.num(s.Seed)
	e.count(s.Attempts)
	e.float(s.TimeoutSeconds)
	e.num(s.MemoryBytes)
	policy, err := json.Marshal(s.Policy)
	switch {
	case err != nil:
		panic("state: a valid policy cannot be encoded: " + err.Error())
	case string(policy) == "{}":
		policy = nil
	}
	e.text(string(policy))
}

func encodeResult(e *encoder, r *job.Result) {
	for _, n := range [...]int{r.Accepted, r.Failed, r.Disputed} {
		e.count(n)
	}
	e.num(r.Iterations)
	e.num(uint64(r.Micros))
	e.count(len(r.Metrics))
	for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
		e.text(name)
		e.moments(r.Metrics[name])
		e.sketch(r.Metrics[name].Sketch)
	}
	e.count(len(r.Workers))
	for _, w := range r.Workers {
		e.node(w.Worker)
		e.count(w.Chunks)
		e.num(w.Iterations)
	}
	e.count(len(r.Skipped))
	for _, s := range r.Skipped {
		e.count(s.First)
		e.count(s.Last)
	}
	e.count(len(r.Anomalies))
	for _, a := range r.Anomalies {
		e.count(a.Chunk)
		e.node(a.Worker)
		e.text(a.Reason)
	}
}

// The first byte of a chunk. None: pending, and never tried.
const (
	chunkHasAccept byte = 1 << iota
	chunkDisputed
	chunkIsReleased
	chunkHasTries
	chunkSettled
)

func (c *chunk) encode(e *encoder) {
	if a := c.accept; a != nil {
		b := chunkHasAccept
		if c.disputed {
			b |= chunkDisputed
		}
		if a.settles {
			b |= chunkSettled
		}
		e.b = append(e.b, b)
		e.key(a.at)
		e.count(a.attempt)
		e.node(a.worker)
		e.num(uint64(a.micros))
		return
	}
	var b byte
	if c.released > 0 {
		b |= chunkIsReleased
	}
	if len(c.tries) > 0 {
		b |= chunkHasTries
	}
	e.b = append(e.b, b)
	if c.released > 0 {
		e.count(c.released)
	}
	if len(c.tries) == 0 {
		return
	}
	tries := slices.Clone(c.tries)
	slices.SortFunc(tries, try.compare)
	e.count(len(tries))
	for _, t := range tries {
		e.count(t.attempt)
		e.node(t.worker)
		e.b = append(e.b, t.flags())
		if t.assigned {
			e.num(uint64(t.term))
			e.clock(t.at)
		}
	}
}

func (t try) compare(o try) int {
	if t.attempt != o.attempt {
		return t.attempt - o.attempt
	}
	return strings.Compare(string(t.worker), string(o.worker))
}

// The state of a try.
const (
	tryAssigned byte = 1 << iota
	tryFailed
	tryReclaimed
	tryFinal
	tryParked
)

func (t try) flags() (b byte) {
	if t.assigned {
		b |= tryAssigned
	}
	if t.failed {
		b |= tryFailed
	}
	if t.reclaimed {
		b |= tryReclaimed
	}
	if t.final {
		b |= tryFinal
	}
	if t.parked {
		b |= tryParked
	}
	return b
}

// encodeMetrics writes the leaves of the trees; the rest follows from them, but
// for the sketches.
func (j *foldedJob) encodeMetrics(e *encoder) {
	e.flag(j.blurred)
	var names []string
	for _, name := range slices.Sorted(maps.Keys(j.metrics)) {
		if j.metrics[name].root().N > 0 {
			names = append(names, name)
		}
	}
	e.count(len(names))
	for _, name := range names {
		e.text(name)
		t := j.metrics[name]
		for _, m := range t.levels[0] {
			e.moments(m)
			e.flush(hashBuffer)
		}
		t.encodeSketch(e, j.blurred)
	}
}

// encodeSketch writes the marks of the leaves, if any has one, and the sketch
// unless it is blurred.
func (t *tree) encodeSketch(e *encoder, blurred bool) {
	marked := slices.ContainsFunc(t.marks, func(m mark) bool { return m != mark{} })
	e.flag(marked)
	if !marked {
		return
	}
	for i, m := range t.marks {
		if t.levels[0][i].N > 0 {
			e.b = append(e.b, m[:]...)
			e.flush(hashBuffer)
		}
	}
	if !blurred {
		e.b = appendSketch(e.b, t.sketch)
	}
}

// encodeProgress writes what Apply needs beyond the meaning.
func (s *State) encodeProgress(e *encoder) {
	for _, n := range [...]uint64{s.applied, s.void, s.malformed} {
		e.num(n)
	}
	settled := s.settled()
	e.num(uint64(settled))
	fences := slices.DeleteFunc(slices.Clone(s.fences.live), func(f *fence) bool { return f.term <= settled })
	e.count(len(fences))
	for _, f := range fences {
		e.num(uint64(f.term))
		e.key(f.at)
		e.count(len(f.cut))
		for _, src := range slices.SortedFunc(maps.Keys(f.cut), event.SourceID.Compare) {
			e.source(src)
			e.num(f.cut[src])
		}
	}
	e.count(len(s.sources))
	for _, id := range slices.SortedFunc(maps.Keys(s.sources), event.SourceID.Compare) {
		src := s.sources[id]
		e.source(id)
		e.num(src.seq)
		last := src.below(settled)
		e.count(len(last))
		for _, term := range slices.Sorted(maps.Keys(last)) {
			e.num(uint64(term))
			e.num(last[term])
		}
	}
	for _, j := range s.byID() {
		e.key(j.top)
		e.num(j.bad)
	}
	encodeTombs(e, standing(s.tombs))
	s.encodeParked(e)
}

// below sums up the terms below settled as term 0: a fence that counts is of a
// higher one.
func (src *source) below(settled cluster.Term) map[cluster.Term]uint64 {
	out := make(map[cluster.Term]uint64)
	for term, last := range src.last {
		if term < settled {
			term = 0
		}
		out[term] = max(out[term], last)
	}
	return out
}

func (s *State) encodeParked(e *encoder) {
	type parked struct {
		job   job.ID
		event event.Event
	}
	var all []parked
	for id, j := range s.jobs {
		for _, ev := range j.parked {
			all = append(all, parked{job: id, event: ev})
		}
	}
	slices.SortFunc(all, func(a, b parked) int { return keyOf(&a.event).compare(keyOf(&b.event)) })
	e.count(len(all))
	for _, p := range all {
		e.key(keyOf(&p.event))
		e.num(uint64(p.event.Term))
		e.text(string(p.event.Kind))
		e.text(string(p.job))
		e.text(string(p.event.Body))
	}
}
