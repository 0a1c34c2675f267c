package state

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// MaxEncoded is the longest encoding that Decode reads, in bytes.
const MaxEncoded = 1 << 30

// ErrEncoding is wrapped by every error of Decode.
var ErrEncoding = errors.New("not the canonical bytes of a state")

// decoder reads what an encoder wrote; after an error it returns zeros.
type decoder struct {
	b       []byte
	err     error
	nodes   []cluster.NodeID
	sources []event.SourceID
}

func newDecoder(b []byte) *decoder { return &decoder{b: b, nodes: []cluster.NodeID{""}} }

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", ErrEncoding, fmt.Sprintf(format, args...))
		d.b = nil
	}
}

// check fails unless ok.
func (d *decoder) check(ok bool, what string) {
	if !ok {
		d.fail("invalid %s", what)
	}
}

func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail("cut short")
		return nil
	}
	out := d.b[:n:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) byte() byte {
	if b := d.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) num() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail("cut short")
		return 0
	}
	d.b = d.b[n:]
	return v
}

// count reads how many things follow, of which each has at least one byte.
func (d *decoder) count() int {
	n := d.num()
	if n > uint64(len(d.b)) {
		d.fail("%d entries in %d bytes", n, len(d.b))
		return 0
	}
	return int(n)
}

// int reads a number that is not the length of anything.
func (d *decoder) int() int {
	n := d.num()
	if n > math.MaxInt32 {
		d.fail("number %d", n)
		return 0
	}
	return int(n)
}

func (d *decoder) fixed() uint64 {
	if b := d.bytes(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) clock() cluster.HLC { return cluster.HLC(d.fixed()) }
func (d *decoder) float() float64     { return math.Float64frombits(d.fixed()) }
func (d *decoder) term() cluster.Term { return cluster.Term(d.num()) }

func (d *decoder) flag() bool {
	b := d.byte()
	d.check(b <= 1, "flag")
	return b == 1
}

func (d *decoder) text(limit int) string {
	n := d.num()
	if n > uint64(limit) {
		d.fail("text of %d bytes, at most %d are allowed", n, limit)
		return ""
	}
	return string(d.bytes(n))
}

func (d *decoder) hash() (h cluster.Hash) {
	copy(h[:], d.bytes(uint64(len(h))))
	return h
}

func (d *decoder) node(optional bool) cluster.NodeID {
	i := d.num()
	switch {
	case i < uint64(len(d.nodes)):
		d.check(optional || i > 0, "host")
		return d.nodes[i]
	case i > uint64(len(d.nodes)):
		d.fail("host %d of %d", i, len(d.nodes))
		return ""
	}
	n := cluster.NodeID(d.text(cluster.MaxNodeIDLen))
	d.check(isNode(n, false), "host")
	d.nodes = append(d.nodes, n)
	return n
}

func (d *decoder) nodeList() []cluster.NodeID {
	n := d.count()
	d.check(n <= cluster.MaxVoters, "list of voters")
	var out []cluster.NodeID
	for i := 0; i < n && d.err == nil; i++ {
		out = append(out, d.node(false))
	}
	return out
}

func (d *decoder) source() event.SourceID {
	i := d.num()
	switch {
	case i < uint64(len(d.sources)):
		return d.sources[i]
	case i > uint64(len(d.sources)):
		d.fail("source %d of %d", i, len(d.sources))
		return event.SourceID{}
	}
	s := event.SourceID{Node: d.node(false), Inc: d.num()}
	d.sources = append(d.sources, s)
	return s
}

func (d *decoder) key() key {
	k := key{hlc: d.clock(), src: d.source(), seq: d.num()}
	d.check(k.seq > 0, "sequence number")
	return k
}

func (d *decoder) moments() (m job.Metric) {
	if m.N = d.num(); m.N > 0 {
		m.Mean, m.M2, m.Min, m.Max = d.float(), d.float(), d.float(), d.float()
	}
	return m
}

// sketch reads what appendSketch wrote; whether it can be is for others.
func (d *decoder) sketch() *job.Sketch {
	s := &job.Sketch{Level: d.int(), Zero: d.num()}
	for _, side := range [...]*[]int64{&s.Below, &s.Above} {
		n := d.count()
		d.check(n <= job.MaxMergedBuckets, "sketch")
		index := int64(-indexShift)
		for ; n > 0 && d.err == nil; n-- {
			index += int64(d.int())
			*side = append(*side, index, int64(min(d.num(), math.MaxInt64)))
		}
	}
	return s
}

// read reads a register.
func read[T any](d *decoder, value func() T) (s stamped[T]) {
	if d.flag() {
		s.at = d.key()
		s.v = value()
	}
	return s
}

// Decode reads what AppendBinary wrote, and refuses all else: the bytes of a
// State are unique. It takes at most some hundred bytes of memory per
// byte of b, mostly about three. What b
// holds is the base of the State: an event that reaches below it is refused,
// see Refused, and Refold of the State takes it, or a later one, as its base.
func Decode(b []byte) (*State, error) {
	if len(b) > MaxEncoded {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrEncoding, len(b), MaxEncoded)
	}
	if len(b) < len(magic)+8 || string(b[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: unknown version", ErrEncoding)
	}
	d := newDecoder(b[len(magic):])
	meaning := d.bytes(d.fixed())
	rest := d.b
	if d.err != nil {
		return nil, d.err
	}
	s := New()
	d = newDecoder(meaning)
	d.meaning(s)
	d.check(len(d.b) == 0, "length")
	if d.err != nil {
		return nil, d.err
	}
	d = newDecoder(rest)
	d.progress(s)
	d.check(len(d.b) == 0, "length")
	if d.err != nil {
		return nil, d.err
	}
	// Order, repetitions, long varints, values that nothing sets: whatever is
	// not canonical is written in another way.
	if again, err := s.AppendBinary(make([]byte, 0, len(b))); err != nil || !bytes.Equal(again, b) {
		return nil, fmt.Errorf("%w: another encoding has the same meaning", ErrEncoding)
	}
	s.settle()
	return s, nil
}

func (d *decoder) meaning(s *State) {
	for n := d.count(); n > 0 && d.err == nil; n-- {
		n := d.node(false)
		s.members[n] = d.member()
	}
	for n := d.count(); n > 0 && d.err == nil; n-- {
		at := d.key()
		s.actions = append(s.actions, stamped[Action]{at: at, v: Action{
			At: at.hlc, Node: at.src.Node, Kind: event.Kind(d.text(cluster.MaxReason)),
			Actor: d.text(maxActor), Subject: d.text(maxActor), Reason: d.text(cluster.MaxReason),
		}})
	}
	for n := d.count(); n > 0 && d.err == nil; n-- {
		at := d.key()
		s.published = append(s.published, stamped[Publication]{at: at, v: Publication{
			At: at.hlc, Node: at.src.Node, Publishing: d.flag(), Term: d.term(), Publisher: d.node(true),
			Why: d.text(cluster.MaxReason),
		}})
	}
	d.check(sorted(s.actions, MaxActions) && sorted(s.published, MaxPublications), "list of the latest")
	d.terms(s)
	s.config = read(d, d.voterConfig)
	s.fences.forks = make(map[event.SourceID]uint64)
	for n := d.count(); n > 0 && d.err == nil; n-- {
		id := d.source()
		s.fences.forks[id] = d.num()
		d.check(s.fences.forks[id] > 0, "fork")
	}
	d.groups(s)
	d.onions(s)
	for n := d.count(); n > 0 && d.err == nil; n-- {
		j := d.job()
		s.jobs[j.id] = j
	}
}

// sorted reports whether a list is one that keepLatest made.
func sorted[T any](list []stamped[T], limit int) bool {
	for i := 1; i < len(list); i++ {
		if list[i-1].at.compare(list[i].at) >= 0 {
			return false
		}
	}
	return len(list) <= limit
}

func (d *decoder) member() *member {
	m := &member{
		joined: read(d, func() admission {
			return admission{
				sponsor: d.node(false), idPub: []byte(d.text(maxKeyLen)), ip4: d.text(maxAddrLen), invite: d.text(maxInviteLen),
			}
		}),
		started: read(d, func() event.HostStarted {
			return event.HostStarted{Version: d.text(cluster.MaxReason), Boot: d.num()}
		}),
		expires: read(d, func() int64 { return int64(d.fixed()) }),
		wgPub:   read(d, func() []byte { return []byte(d.text(maxKeyLen)) }),
		health:  read(d, func() cluster.Health { return cluster.Health(d.text(cluster.MaxReason)) }),
		left:    read(d, func() string { return d.text(maxActor) }),
		removed: read(d, func() removal { return removal{actor: d.text(maxActor), reason: d.text(cluster.MaxReason)} }),
	}
	m.publishing = read(d, d.flag)
	m.disk = read(d, func() string { return d.text(maxActor) })
	d.check(m.disk.at.isZero() || validDisk(m.disk.v), "disk")
	d.check(m.health.at.isZero() || validHealth(m.health.v), "health")
	return m
}

func (d *decoder) terms(s *State) {
	if s.older.terms = d.num(); s.older.terms > 0 {
		s.older.splits = d.num()
		s.older.first = termKey{term: d.term(), at: d.key()}
	}
	n := d.count()
	d.check(n <= MaxTerms, "number of terms")
	for i := 0; i < n && d.err == nil; i++ {
		k := termKey{term: d.term(), at: d.key()}
		s.terms[k] = &termInfo{
			previous: d.node(true), grants: d.nodeList(), voters: d.nodeList(),
			profile: cluster.Profile(d.text(cluster.MaxNodeIDLen)), split: d.flag(),
		}
	}
	for n := d.count(); n > 0 && d.err == nil; n-- {
		holder, n := d.node(false), d.count()
		d.check(n > 0 && n <= MaxTerms, "number of ends")
		var list []release
		for i := 0; i < n && d.err == nil; i++ {
			list = append(list, release{
				term: d.term(), at: d.key(), successor: d.node(true), reason: d.text(cluster.MaxReason),
			})
			d.check(i == 0 || list[i-1].term < list[i].term, "order of ends")
		}
		s.releases[holder] = list
	}
}

func (d *decoder) voterConfig() (c cluster.VoterConfig) {
	b := d.text(1 << 16)
	if d.err != nil {
		return c
	}
	if err := json.Unmarshal([]byte(b), &c); err != nil {
		d.fail("voter config: %v", err)
	} else if err := c.Validate(); err != nil {
		d.fail("%v", err)
	}
	return c
}

func (d *decoder) job() *foldedJob {
	j := &foldedJob{id: job.ID(d.text(maxJobIDLen)), known: true, spec: d.spec()}
	d.check(j.id != "" && j.spec.Validate() == nil, "job")
	if d.err != nil {
		return j
	}
	j.total = j.spec.Chunks()
	j.owner = d.text(len(d.b))
	j.submittedAt = d.key()
	j.queued = read(d, func() string { return d.text(cluster.MaxReason) })
	j.stop = read(d, func() stop {
		return stop{actor: d.text(cluster.MaxReason), reason: d.text(cluster.MaxReason), cause: job.StopCause(d.text(cluster.MaxReason))}
	})
	d.check(j.stop.v.cause.Known(), "stop of a job")
	done := read(d, func() event.JobDone {
		return event.JobDone{Job: j.id, State: job.State(d.text(cluster.MaxReason)), Reason: d.text(cluster.MaxReason)}
	})
	j.doneAt, j.done = done.at, done.v
	d.check(j.doneAt.isZero() || j.done.State.Final(), "end of a job")
	j.attempts, j.failures, j.reclaims = d.int(), d.int(), d.int()
	j.firstTry, j.lastDone = d.clock(), d.clock()
	n := d.count()
	d.check(n <= MaxFailures, "number of failures")
	for i := 0; i < n && d.err == nil; i++ {
		at := d.key()
		j.recent = append(j.recent, Failure{
			Chunk: d.int(), Attempt: d.int(), Worker: d.node(false), Reason: d.text(cluster.MaxReason), Final: d.flag(),
			At: at.hlc, key: at,
		})
		d.check(i == 0 || j.recent[i-1].key.less(at), "order of failures")
	}
	if d.flag() {
		j.sealedAt, j.sealed = d.key(), d.result()
		d.check(j.sealed.Validate(j.spec) == nil, "result")
		return j
	}
	d.chunks(j)
	d.metrics(j)
	return j
}

func (d *decoder) spec() job.Spec {
	s := job.Spec{
		Name: d.text(job.MaxName), Key: d.text(job.MaxKeyBytes), Executor: d.text(job.MaxName),
	}
	if s.Executor == job.ExecutorExec {
		s.Program = d.text(job.MaxProgramName)
	}
	s.Artefact, s.Config, s.Iterations, s.Chunk, s.Seed = d.hash(), d.hash(), d.num(), d.num(), d.num()
	s.Attempts, s.TimeoutSeconds, s.MemoryBytes = d.int(), d.float(), d.num()
	if policy := d.text(maxPolicy); policy != "" {
		if err := json.Unmarshal([]byte(policy), &s.Policy); err != nil {
			d.fail("policy: %v", err)
		}
	}
	return s
}

// maxPolicy bounds the text of a policy: its names, each byte escaped.
const maxPolicy = 6*(job.MaxUsers*cluster.MaxPrincipal+job.MaxGroups*cluster.MaxGroupName+job.MaxZones*cluster.MaxZoneName) + 1<<14

func (d *decoder) result() *job.Result {
	r := &job.Result{Accepted: d.int(), Failed: d.int(), Disputed: d.int(), Iterations: d.num(), Micros: int64(d.num())}
	for n := d.count(); n > 0 && d.err == nil; n-- {
		if r.Metrics == nil {
			r.Metrics = make(map[string]job.Metric)
		}
		name := d.text(job.MaxMetricName)
		m := d.moments()
		if d.flag() {
			m.Sketch = d.sketch()
		}
		r.Metrics[name] = m
	}
	for n := d.count(); n > 0 && d.err == nil; n-- {
		r.Workers = append(r.Workers, job.WorkShare{Worker: d.node(false), Chunks: d.int(), Iterations: d.num()})
	}
	for n := d.count(); n > 0 && d.err == nil; n-- {
		r.Skipped = append(r.Skipped, job.Span{First: d.int(), Last: d.int()})
	}
	for n := d.count(); n > 0 && d.err == nil; n-- {
		r.Anomalies = append(r.Anomalies, job.Anomaly{Chunk: d.int(), Worker: d.node(false), Reason: d.text(job.MaxAnomalyReason)})
	}
	return r
}

// chunks reads the chunks of a job, each of at least one byte, and what
// follows from them.
func (d *decoder) chunks(j *foldedJob) {
	if j.total > len(d.b) {
		d.fail("%d chunks in %d bytes", j.total, len(d.b))
		return
	}
	j.chunks = make([]chunk, j.total)
	j.metrics, j.shares = make(trees), make(map[cluster.NodeID]*share)
	var accepts []accept // room for some more
	for i := range j.chunks {
		c := &j.chunks[i]
		if len(accepts) == 0 {
			accepts = make([]accept, min(256, j.total))
		}
		if d.chunk(c, &accepts[0]); c.accept != nil {
			accepts = accepts[1:]
		}
		if d.err != nil {
			return
		}
		j.count[c.state()]++
		if c.accept != nil {
			_, n := j.spec.ChunkRange(i)
			j.credit(c.accept, n, 1)
		}
		if c.disputed {
			j.disputed++
		}
	}
}

func (d *decoder) chunk(c *chunk, room *accept) {
	b := d.byte()
	if b&chunkHasAccept != 0 {
		c.disputed = b&chunkDisputed != 0
		c.accept = room
		*room = accept{at: d.key(), attempt: d.int(), worker: d.node(false), settles: b&chunkSettled != 0}
		us := d.num()
		d.check(us <= maxMicros, "run time")
		c.accept.micros = int64(us)
		d.check(c.accept.attempt >= 1, "attempt")
		return
	}
	if b&chunkIsReleased != 0 {
		c.released = d.int()
		d.check(c.released >= 1, "release of a chunk")
	}
	if b&chunkHasTries == 0 {
		return
	}
	for n := d.count(); n > 0 && d.err == nil; n-- {
		t := try{attempt: d.int(), worker: d.node(false)}
		flags := d.byte()
		t.assigned, t.failed, t.reclaimed = flags&tryAssigned != 0, flags&tryFailed != 0, flags&tryReclaimed != 0
		t.final, t.parked = flags&tryFinal != 0, flags&tryParked != 0
		d.check((t.failed || !t.final) && (t.final || !t.parked), "end of an attempt")
		if t.assigned {
			t.term, t.at = d.term(), d.clock()
		}
		d.check(t.attempt >= 1 && flags != 0, "attempt")
		if n := len(c.tries); n > 0 {
			d.check(c.tries[n-1].compare(t) < 0, "order of attempts")
		}
		c.tries = append(c.tries, t)
	}
}

func (d *decoder) metrics(j *foldedJob) {
	j.blurred = d.flag()
	for n := d.count(); n > 0 && d.err == nil; n-- {
		name := d.text(job.MaxMetricName)
		d.check(name != "" && j.metrics[name] == nil, "metric")
		if j.total > len(d.b) {
			d.fail("%d chunks in %d bytes", j.total, len(d.b))
		}
		if d.err != nil {
			return
		}
		t := newTree(j.total)
		for i := range j.chunks {
			m := d.moments()
			if m.N > 0 {
				_, n := j.spec.ChunkRange(i)
				d.check(j.chunks[i].accept != nil && m.Validate(n) == nil, "metric")
			}
			t.levels[0][i] = m
		}
		t.build()
		if d.flag() {
			d.marks(t, j.blurred)
		}
		j.metrics[name] = t
	}
}

// marks reads the marks of a tree's leaves and the sketch of those that have
// one.
func (d *decoder) marks(t *tree, blurred bool) {
	t.marks = make([]mark, len(t.levels[0]))
	var marked job.Metric // the leaves that have one
	for i, m := range t.levels[0] {
		if m.N == 0 || d.err != nil {
			continue
		}
		copy(t.marks[i][:], d.bytes(uint64(len(mark{}))))
		if t.marks[i] != (mark{}) {
			marked = marked.Merge(m)
		}
	}
	d.check(marked.N > 0, "marks")
	if !blurred {
		t.sketch = d.sketch()
		d.check(d.err != nil || t.sketch.Validate(marked, job.MaxMergedBuckets) == nil, "sketch")
	}
}

func (d *decoder) progress(s *State) {
	s.applied, s.void, s.malformed = d.num(), d.num(), d.num()
	s.fences.settled = d.term()
	for n := d.count(); n > 0 && d.err == nil; n-- {
		f := &fence{term: d.term(), at: d.key(), cut: make(map[event.SourceID]uint64)}
		d.check(f.term > s.fences.settled, "fence")
		for n := d.count(); n > 0 && d.err == nil; n-- {
			src := d.source()
			f.cut[src] = d.num()
		}
		if d.err != nil {
			return
		}
		s.fences.add(f)
	}
	for n := d.count(); n > 0 && d.err == nil; n-- {
		id := d.source()
		src := s.source(id)
		src.seq = d.num()
		for n := d.count(); n > 0 && d.err == nil; n-- {
			term := d.term()
			src.last[term] = d.num()
		}
		d.check(src.seq > 0, "position")
		if d.err != nil {
			return
		}
	}
	for _, j := range s.byID() {
		j.top, j.bad = d.key(), d.num()
		d.check(j.bad <= s.malformed, "latest event of a job")
	}
	d.tombs(s)
	for n := d.count(); n > 0 && d.err == nil; n-- {
		k := d.key()
		e := event.Event{HLC: k.hlc, Source: k.src, Seq: k.seq, Term: d.term(), Kind: event.Kind(d.text(maxJobIDLen))}
		id := job.ID(d.text(maxJobIDLen))
		e.Body = []byte(d.text(len(d.b)))
		d.check(id != "" && parks(&e, id) && !s.buried(id, &e), "waiting event")
		if d.err != nil {
			return
		}
		j := s.job(id)
		d.check(!j.known, "waiting event")
		j.parked = append(j.parked, e)
	}
}

// parks reports whether e is an event about a job that may wait for it.
func parks(e *event.Event, id job.ID) bool {
	var body struct {
		Job job.ID `json:"job"`
	}
	switch e.Kind {
	case event.KindJobQueued, event.KindJobStopped, event.KindJobDone, event.KindChunksAssigned, event.KindChunkFailed,
		event.KindChunkReclaimed, event.KindChunksReleased, event.KindChunkAccepted, event.KindChunksAccepted:
		return json.Unmarshal(e.Body, &body) == nil && body.Job == id && e.Term > 0
	}
	return false
}
