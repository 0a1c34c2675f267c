package desk

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/stream"
)

// Times of attached workers.
const (
	// Silent is how long nothing may come from one that is attached: then it is lost.
	Silent = 120 * time.Second
	// Linger is how long one that was lost keeps what it has, KeepResults one of which
	// the holder has not heard.
	Linger      = 120 * time.Second
	KeepResults = 10 * time.Minute
)

// Bounds of what one worker says at once and has.
const (
	MaxRefs    = stream.MaxCrewAssigned
	MaxResults = 64
	maxSpecs   = 64
	// greetAtOnce is how many workers a new holder is told of before it takes that.
	greetAtOnce = 256
)

// What calls answer. Nothing was changed.
var (
	// ErrInvalid says that a call is not one.
	ErrInvalid = errors.New("invalid")
	// ErrUnknown says that nobody is attached under this id.
	ErrUnknown = errors.New("not attached")
	// ErrSession says that the session was replaced.
	ErrSession = errors.New("session replaced")
	// ErrBusy says that there is no room now.
	ErrBusy = errors.New("no room now")
)

// Options are the bounds of a Desk.
type Options struct {
	Workers     int // attached at once; default 20000
	ResultBytes int // of results whose fate is not known, of one worker a quarter; default 64 MiB
}

// Desk is the outside workers of one host. It belongs to one caller at a time.
type Desk struct {
	o      Options
	on     bool         // a holder has a stream
	term   cluster.Term // of its stream
	floors stream.Floors
	specs  map[job.ID]*job.Spec
	of     map[cluster.NodeID]*record
	bytes  int    // of results
	count  uint64 // of attaches

	frames []stream.Frame
	greet  []cluster.NodeID // of whom the holder was not told yet
	pushes []Push
}

// record is one worker.
type record struct {
	id      cluster.NodeID
	is      Attach
	session uint64
	least   uint64 // the next session is higher
	here    bool
	joined  bool          // the holder was told
	heard   time.Duration // when it said something last
	seq     uint64        // of the latest push
	has     map[job.Attempt]*task
	results map[job.Attempt]*result
	bytes   int // of results
}

// task is what a worker has and has not answered.
type task struct {
	spec   *job.Spec // nil: it says that it was given that elsewhere
	done   uint64    // iterations
	missed int       // beats in a row that did not name it
}

type result struct {
	stream.Result
	at   uint64 // in which order they came
	size int
}

// New returns a Desk that nobody is attached to.
func New(o Options) *Desk {
	o.Workers, o.ResultBytes = cmp.Or(o.Workers, 20000), cmp.Or(o.ResultBytes, 64<<20)
	return &Desk{o: o, floors: stream.Floors{}, specs: make(map[job.ID]*job.Spec), of: make(map[cluster.NodeID]*record)}
}

// Attach is what a worker says that attaches.
type Attach struct {
	Worker      cluster.NodeID
	Owner       string // whose it is, as far as this host knows
	Slots       int
	Room        int // attempts that it takes in all
	MemoryBytes uint64
	Executors   []string
	Draining    bool
	Running     []job.Attempt // what it has, queued or running
	Kept        []job.Attempt // of what it has results, which it sends after this
	After       uint64        // a session that is known elsewhere; 0: none
	Apart       bool          // it asks by HTTP: see Roaming
}

// State is what a worker is told that attaches, or asks again.
type State struct {
	Session uint64
	Seq     uint64       // of the latest push: all before it are void
	Term    cluster.Term // of the latest holder
	Chunks  []Given      // all that it is to have
	Stop    []job.Attempt
}

// Given is chunks of one job.
type Given struct {
	Spec *job.Spec // not to be changed
	Refs []job.Attempt
}

// PushKind says what a Push is about.
type PushKind string

// Values of PushKind.
const (
	PushChunks  PushKind = "chunk"    // run these
	PushStop    PushKind = "stop"     // end these, and forget their results
	PushSettled PushKind = "settled"  // forget the results of these
	PushGone    PushKind = "replaced" // the session is over; by Reason and After it may attach again
)

// Push is what a worker is told unasked.
type Push struct {
	Worker  cluster.NodeID
	Session uint64
	Seq     uint64
	Term    cluster.Term
	Kind    PushKind
	Chunks  Given             // of PushChunks
	Refs    []job.Attempt     // of PushStop and PushSettled
	Reason  stream.DropReason // of PushGone
	After   uint64            // of PushGone: the next session must be higher
}

// Check says why a worker cannot attach so.
func (a Attach) Check() error {
	j := stream.Join{Session: 1, Owner: a.Owner, Slots: a.Slots, Room: a.Room, Executors: a.Executors, Assigned: a.Running}
	if err := (stream.Frame{Join: &j}).Validate(); err != nil {
		return err
	}
	if !cluster.IsOutside(a.Worker) {
		return fmt.Errorf("%.64q is not the id of an outside worker", a.Worker)
	}
	return CheckRefs(a.Running, a.Kept)
}

// CheckRefs checks attempts that a worker names.
func CheckRefs(lists ...[]job.Attempt) error {
	n := 0
	for _, list := range lists {
		if n += len(list); n > MaxRefs {
			return fmt.Errorf("more than %d attempts", MaxRefs)
		}
		if err := (stream.Frame{Accepted: &stream.Accepted{Term: 1, Refs: list}}).Validate(); err != nil {
			return err
		}
	}
	return nil
}

// Attach begins a session of a worker. An earlier one ends. wall is the time of the day.
func (d *Desk) Attach(a Attach, now time.Duration, wall time.Time) (State, error) {
	if err := a.Check(); err != nil {
		return State{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	r := d.of[a.Worker]
	if r == nil {
		if len(d.of) >= d.o.Workers {
			return State{}, fmt.Errorf("%w: %d workers are attached", ErrBusy, len(d.of))
		}
		r = &record{id: a.Worker, has: make(map[job.Attempt]*task), results: make(map[job.Attempt]*result)}
		d.of[a.Worker] = r
	}
	d.over(r, stream.DropReplaced)
	d.count++
	r.least = max(r.least, r.session, a.After)
	r.session = max(uint64(wall.UnixMilli())<<16|d.count&0xffff, r.least+1)
	claims := append(slices.Clone(a.Running), a.Kept...)
	a.Running, a.Kept, a.Executors = nil, nil, slices.Clone(a.Executors)
	r.is, r.here, r.heard, r.seq, r.joined = a, true, now, 0, false
	var stop []job.Attempt
	for _, ref := range claims {
		switch {
		case r.has[ref] != nil || r.results[ref] != nil:
		case len(r.has) >= MaxRefs:
			stop = append(stop, ref)
		default:
			r.has[ref] = &task{}
		}
	}
	if d.on {
		d.join(r)
	}
	st := d.state(r)
	st.Stop = stop
	return st, nil
}

// over ends the session of a worker, if it has one, and tells it why.
func (d *Desk) over(r *record, why stream.DropReason) {
	if r.here {
		d.push(r, Push{Kind: PushGone, Reason: why, After: max(r.least, r.session)})
		r.here = false
	}
}

func (d *Desk) state(r *record) State {
	st := State{Session: r.session, Seq: r.seq, Term: d.term}
	by := make(map[*job.Spec][]job.Attempt)
	for ref, t := range r.has {
		if t.spec != nil {
			by[t.spec] = append(by[t.spec], ref)
		}
	}
	for spec, refs := range by {
		sortRefs(refs)
		st.Chunks = append(st.Chunks, Given{Spec: spec, Refs: refs})
	}
	slices.SortFunc(st.Chunks, func(a, b Given) int { return compareRefs(a.Refs[0], b.Refs[0]) })
	return st
}

func compareRefs(a, b job.Attempt) int {
	return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Chunk, b.Chunk), cmp.Compare(a.Number, b.Number))
}

func sortRefs(refs []job.Attempt) []job.Attempt {
	slices.SortFunc(refs, compareRefs)
	return refs
}

// session is the record of a worker in its session.
func (d *Desk) session(worker cluster.NodeID, session uint64) (*record, error) {
	r := d.of[worker]
	switch {
	case r == nil:
		return nil, ErrUnknown
	case r.session != session:
		return nil, ErrSession
	case !r.here:
		return nil, ErrUnknown
	}
	return r, nil
}

// Progress is how far an attempt is.
type Progress struct {
	job.Attempt
	Done uint64 // iterations
}

// Beat is what a worker says of itself every 10 s.
type Beat struct {
	Have     []Progress // what it has, queued or running
	Kept     int        // results that are not settled
	Ready    bool
	Draining bool
}

// Beat takes in what a worker says of itself, and answers with the number of the latest
// push. What it lacks it is told again; what nobody wants of it, it is to stop.
func (d *Desk) Beat(worker cluster.NodeID, session uint64, b Beat, now time.Duration) (seq uint64, err error) {
	r, err := d.session(worker, session)
	if err != nil {
		return 0, err
	}
	refs := make([]job.Attempt, len(b.Have))
	for i, h := range b.Have {
		refs[i] = h.Attempt
	}
	if err := CheckRefs(refs); err != nil || b.Kept < 0 {
		return 0, fmt.Errorf("%w: %d kept: %w", ErrInvalid, b.Kept, cmp.Or(err, errNegative))
	}
	r.heard, r.is.Draining = now, b.Draining
	st := stream.Status{Running: []job.Attempt{}, Kept: b.Kept, Ready: b.Ready, Draining: b.Draining}
	named := make(map[job.Attempt]bool, len(refs))
	var stray []job.Attempt
	for _, h := range b.Have {
		if named[h.Attempt] {
			continue
		}
		named[h.Attempt] = true
		t := r.has[h.Attempt]
		if t == nil {
			if r.results[h.Attempt] == nil {
				stray = append(stray, h.Attempt)
			}
			continue
		}
		t.missed, t.done = 0, max(t.done, h.Done)
		st.Running = append(st.Running, h.Attempt)
		st.Progress = append(st.Progress, stream.Progress{Attempt: h.Attempt, Done: t.done})
	}
	if len(stray) > 0 {
		d.push(r, Push{Kind: PushStop, Refs: stray})
	}
	d.missed(r, named)
	if r.joined {
		d.say(r.id, stream.Frame{Status: &st})
	}
	return r.seq, nil
}

var errNegative = errors.New("a negative number")

// missed tells a worker again what two of its beats did not name. What it brought from
// elsewhere it has no more.
func (d *Desk) missed(r *record, named map[job.Attempt]bool) {
	again := make(map[*job.Spec][]job.Attempt)
	for _, ref := range sortRefs(slices.Collect(maps.Keys(r.has))) {
		t := r.has[ref]
		if named[ref] {
			continue
		}
		if t.missed++; t.missed < 2 {
			continue
		}
		if t.missed = 0; t.spec == nil {
			delete(r.has, ref)
		} else {
			again[t.spec] = append(again[t.spec], ref)
		}
	}
	var all []Given
	for spec, refs := range again {
		all = append(all, Given{Spec: spec, Refs: refs})
	}
	slices.SortFunc(all, func(a, b Given) int { return compareRefs(a.Refs[0], b.Refs[0]) })
	for _, g := range all {
		d.push(r, Push{Kind: PushChunks, Chunks: g})
	}
}

// Verdict is what became of a result.
type Verdict string

// Values of Verdict.
const (
	Taken     Verdict = "taken"     // keep it until it is settled
	Duplicate Verdict = "duplicate" // it was taken before
	Unknown   Verdict = "unknown"   // nobody asked for it: drop it
)

// Complete takes results of a worker, and says for each what became of it.
func (d *Desk) Complete(worker cluster.NodeID, session uint64, results []stream.Result, now time.Duration) ([]Verdict, error) {
	r, err := d.session(worker, session)
	if err != nil {
		return nil, err
	}
	if len(results) > MaxResults {
		return nil, fmt.Errorf("%w: %d results at once, at most %d are allowed", ErrInvalid, len(results), MaxResults)
	}
	bytes := 0
	for i := range results {
		if err := (stream.Frame{Result: &results[i]}).Validate(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		bytes += sizeOf(&results[i])
	}
	if d.bytes+bytes > d.o.ResultBytes || r.bytes+bytes > d.o.ResultBytes/4 {
		return nil, fmt.Errorf("%w: results of %d bytes wait for the holder, %d of this worker", ErrBusy, d.bytes, r.bytes)
	}
	r.heard = now
	out := make([]Verdict, len(results))
	for i := range results {
		res := results[i]
		switch {
		case r.results[res.Attempt] != nil:
			out[i] = Duplicate
		case r.has[res.Attempt] == nil:
			out[i] = Unknown
		default:
			out[i] = Taken
			delete(r.has, res.Attempt)
			d.keep(r, res)
		}
	}
	return out, nil
}

// keep keeps a result, and tells the holder.
func (d *Desk) keep(r *record, res stream.Result) {
	d.count++
	k := &result{Result: res, at: d.count, size: sizeOf(&res)}
	r.results[res.Attempt] = k
	d.bytes += k.size
	r.bytes += k.size
	if r.joined {
		d.say(r.id, stream.Frame{Result: &k.Result})
	}
}

// sizeOf is about how much memory a result takes.
func sizeOf(r *stream.Result) int {
	n := 256 + len(r.Error)
	if r.Result != nil {
		for name, m := range r.Result.Metrics {
			n += 128 + len(name) + 16*m.Sketch.Buckets()
		}
	}
	return n
}

// Assigned tells a worker all that it is to have, after it missed something.
func (d *Desk) Assigned(worker cluster.NodeID, session uint64, now time.Duration) (State, error) {
	r, err := d.session(worker, session)
	if err != nil {
		return State{}, err
	}
	r.heard = now
	return d.state(r), nil
}

// Names reports that a worker has a chunk whose job needs the artefact h.
func (d *Desk) Names(worker cluster.NodeID, h cluster.Hash) bool {
	r := d.of[worker]
	if r == nil {
		return false
	}
	for _, t := range r.has {
		if t.spec != nil && (t.spec.Artefact == h || t.spec.Config == h) {
			return true
		}
	}
	return false
}

// Bye ends a session for good: what the worker has goes to others.
func (d *Desk) Bye(worker cluster.NodeID, session uint64, now time.Duration) error {
	return d.end(worker, session, now, true)
}

// Lose takes in that a worker cannot be reached any more. It may attach again.
func (d *Desk) Lose(worker cluster.NodeID, session uint64, now time.Duration) error {
	return d.end(worker, session, now, false)
}

func (d *Desk) end(worker cluster.NodeID, session uint64, now time.Duration, gone bool) error {
	r, err := d.session(worker, session)
	if err != nil {
		return err
	}
	r.here, r.heard = false, now
	if gone {
		clear(r.has)
	}
	d.part(r, gone)
	if gone && len(r.results) == 0 {
		delete(d.of, worker)
	}
	return nil
}

// part tells the holder that a worker is not here any more.
func (d *Desk) part(r *record, gone bool) {
	if r.joined {
		r.joined = false
		d.say(r.id, stream.Frame{Part: &stream.Part{Session: r.session, Gone: gone}})
	}
}

// Tick lets time pass: who was silent for long is lost, who was lost for long forgotten.
func (d *Desk) Tick(now time.Duration) {
	var late []cluster.NodeID
	for n, r := range d.of {
		if limit := d.limit(r); now-r.heard >= limit {
			late = append(late, n)
		}
	}
	slices.Sort(late)
	for _, n := range late {
		r := d.of[n]
		if r.here {
			d.over(r, stream.DropStale)
			d.part(r, false)
			r.heard = now
			continue
		}
		d.forget(r)
	}
}

func (d *Desk) limit(r *record) time.Duration {
	switch {
	case r.here:
		return Silent
	case len(r.results) > 0:
		return KeepResults
	}
	return Linger
}

// forget drops all that is known of a worker.
func (d *Desk) forget(r *record) {
	d.bytes -= r.bytes
	delete(d.of, r.id)
}

// Stats says how much there is.
type Stats struct{ Workers, Attached, Results, Bytes int }

// Stats counts what there is.
func (d *Desk) Stats() Stats {
	s := Stats{Workers: len(d.of), Bytes: d.bytes}
	for _, r := range d.of {
		if r.here {
			s.Attached++
		}
		s.Results += len(r.results)
	}
	return s
}

func (d *Desk) push(r *record, p Push) {
	if !r.here {
		return
	}
	r.seq++
	p.Worker, p.Session, p.Seq, p.Term = r.id, r.session, r.seq, d.term
	d.pushes = append(d.pushes, p)
}

// Pushes returns what workers are to be told, in order, once.
func (d *Desk) Pushes() []Push {
	out := d.pushes
	d.pushes = nil
	return out
}
