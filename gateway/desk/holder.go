package desk

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/stream"
)

// ErrHolder ends the stream of a holder that says what no correct one does.
var ErrHolder = errors.New("frame out of place")

// Open begins the stream of a holder in term. All workers are told to it.
func (d *Desk) Open(term cluster.Term) {
	d.Close()
	d.on, d.term = true, term
	for n, r := range d.of {
		if r.here || len(r.results) > 0 {
			d.greet = append(d.greet, n)
		}
	}
	slices.Sort(d.greet)
}

// Close ends the stream of a holder. What waits for it is void: the next one is told all.
func (d *Desk) Close() {
	d.on, d.greet, d.frames = false, nil, nil
	for _, r := range d.of {
		r.joined = false
	}
}

// Term is that of the latest holder.
func (d *Desk) Term() cluster.Term { return d.term }

// Waiting is how many frames the holder has not taken.
func (d *Desk) Waiting() int { return len(d.frames) }

// Frames returns what the holder is to be told, in order, once. While it has not heard of
// all workers, more follows.
func (d *Desk) Frames() []stream.Frame {
	for n := 0; n < greetAtOnce && len(d.greet) > 0; n++ {
		r := d.of[d.greet[0]]
		d.greet = d.greet[1:]
		if r == nil || r.joined || !r.here && len(r.results) == 0 {
			continue
		}
		d.join(r)
		if !r.here {
			d.part(r, len(r.has) == 0)
		}
	}
	out := d.frames
	d.frames = nil
	return out
}

func (d *Desk) say(worker cluster.NodeID, f stream.Frame) {
	f.Worker = worker
	d.frames = append(d.frames, f)
}

// join tells the holder of a worker, what it has and what it has done.
func (d *Desk) join(r *record) {
	r.joined = true
	d.say(r.id, stream.Frame{Join: &stream.Join{
		Session: r.session, Owner: r.is.Owner, Slots: r.is.Slots, Room: r.is.Room, MemoryBytes: r.is.MemoryBytes,
		Executors: r.is.Executors, Assigned: sortRefs(slices.Collect(maps.Keys(r.has))), Draining: r.is.Draining,
	}})
	kept := slices.SortedFunc(maps.Values(r.results), func(a, b *result) int { return cmp.Compare(a.at, b.at) })
	for _, k := range kept {
		d.say(r.id, stream.Frame{Result: &k.Result})
	}
}

// Frame takes what the holder says. After an error its stream is to be ended.
func (d *Desk) Frame(f stream.Frame) error {
	if f.Ping != nil {
		d.say("", stream.Frame{Pong: &stream.Ping{Term: d.term, Nonce: f.Ping.Nonce}})
		return nil
	}
	term := cluster.Term(0)
	switch {
	case f.Assign != nil:
		term = f.Assign.Term
	case f.Cancel != nil:
		term = f.Cancel.Term
	case f.Accepted != nil:
		term = f.Accepted.Term
	case f.Query != nil:
		term = f.Query.Term
	case f.Drop != nil:
		term = f.Drop.Term
	}
	if !d.on || term != d.term || term == 0 {
		return fmt.Errorf("%w: in term %d, the stream is of term %d", ErrHolder, term, d.term)
	}
	r := d.of[f.Worker]
	switch {
	case f.Assign != nil:
		d.assign(r, f.Assign)
	case r == nil: // it went, and the holder is about to hear of it
	case f.Cancel != nil:
		d.cancel(r, f.Cancel)
	case f.Accepted != nil:
		d.settle(r, f.Accepted.Refs)
	case f.Query != nil:
		d.say(r.id, stream.Frame{Assigned: &stream.Assigned{
			Nonce: f.Query.Nonce, Refs: sortRefs(slices.Collect(maps.Keys(r.has))), Kept: sortRefs(slices.Collect(maps.Keys(r.results))),
		}})
	case f.Drop != nil:
		d.drop(r, *f.Drop)
	}
	return nil
}

// assign gives chunks to a worker. What it has already is left as it is, what it has done
// is told again.
func (d *Desk) assign(r *record, a *stream.Assign) {
	order := d.floors.Take(a.Job, a.Term, a.Seq)
	if order == stream.OrderStale || r == nil {
		return
	}
	spec := d.specs[a.Job]
	if spec == nil {
		if len(d.specs) >= maxSpecs {
			clear(d.specs) // who has chunks of them keeps theirs
		}
		spec = &a.Spec
		d.specs[a.Job] = spec
	}
	var refs []job.Attempt
	for _, c := range a.Chunks {
		ref := job.Attempt{Job: a.Job, Chunk: c.Chunk, Number: c.Number}
		t, k := r.has[ref], r.results[ref]
		switch {
		case k != nil:
			d.say(r.id, stream.Frame{Result: &k.Result})
		case t != nil:
			t.spec = cmp.Or(t.spec, spec)
		case order == stream.OrderAgain: // it was done, and its fate is known
		case len(r.has) >= MaxRefs:
			d.say(r.id, stream.Frame{Result: &stream.Result{Attempt: ref, Error: "the worker has no room", Class: job.HandedBack}})
		default:
			r.has[ref] = &task{spec: spec}
			refs = append(refs, ref)
		}
	}
	if len(refs) > 0 {
		d.push(r, Push{Kind: PushChunks, Chunks: Given{Spec: spec, Refs: refs}})
	}
}

// cancel forgets attempts and their results. That nothing of them runs any more, the
// beats of the worker say.
func (d *Desk) cancel(r *record, c *stream.Cancel) {
	_ = d.floors.Take(c.Job, c.Term, c.Seq) // and obeyed, however late: a stop is always safe
	hit := func(ref job.Attempt) bool {
		return ref.Job == c.Job && (len(c.Chunks) == 0 || slices.Contains(c.Chunks, job.Attempt{Chunk: ref.Chunk, Number: ref.Number}))
	}
	var refs []job.Attempt
	for ref := range r.has {
		if hit(ref) {
			delete(r.has, ref)
			refs = append(refs, ref)
		}
	}
	for ref := range r.results {
		if hit(ref) {
			d.lose(r, ref)
			refs = append(refs, ref)
		}
	}
	if len(refs) > 0 {
		d.push(r, Push{Kind: PushStop, Refs: sortRefs(refs)})
	}
}

func (d *Desk) lose(r *record, ref job.Attempt) {
	if k := r.results[ref]; k != nil {
		d.bytes -= k.size
		r.bytes -= k.size
		delete(r.results, ref)
	}
}

// settle forgets results whose fate is stable.
func (d *Desk) settle(r *record, refs []job.Attempt) {
	for _, ref := range refs {
		d.lose(r, ref)
		delete(r.has, ref)
	}
	d.push(r, Push{Kind: PushSettled, Refs: refs})
	if !r.here && len(r.results)+len(r.has) == 0 {
		d.forget(r)
	}
}

// drop detaches a worker that the holder does not want, or that has a session elsewhere.
// What it has done it keeps itself, and says so where it attaches next.
func (d *Desk) drop(r *record, x stream.Drop) {
	if r.session > x.Session {
		return // it has attached anew
	}
	r.least = max(r.least, x.Session)
	d.over(r, x.Reason)
	d.forget(r)
}
