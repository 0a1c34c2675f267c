package jobs

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state/canon"
)

// Write writes what the jobs are, which is a part of the meaning of a state.
func (f *Fold) Write(w *canon.Writer) {
	jobs := f.byID()
	w.Count(len(jobs))
	for _, j := range jobs {
		j.write(w)
	}
}

// Read reads into an empty Fold what Write wrote.
func (f *Fold) Read(r *canon.Reader) {
	for n := r.Count(); n > 0 && r.OK(); n-- {
		j := readJob(r)
		f.jobs[j.id] = j
	}
}

// Keeps reports whether the jobs of f have artefacts that are kept with them, which older
// versions of the bytes have no place for.
func Keeps(f *Fold) bool {
	for _, j := range f.jobs {
		if len(j.tally.logs) > 0 {
			return true
		}
	}
	return false
}

// WriteKept writes which artefacts are kept with the jobs.
func (f *Fold) WriteKept(w *canon.Writer) {
	list := slices.DeleteFunc(f.byID(), func(j *foldedJob) bool { return len(j.tally.logs) == 0 })
	w.Count(len(list))
	for _, j := range list {
		w.Text(string(j.id))
		j.tally.writeLogs(w)
	}
}

// ReadKept reads what WriteKept wrote, of jobs that Read has read.
func (f *Fold) ReadKept(r *canon.Reader) {
	for n := r.Count(); n > 0 && r.OK(); n-- {
		j, ok := f.jobs[job.ID(r.Text(maxJobIDLen))]
		r.Check(ok && len(j.tally.logs) == 0, "job with logs")
		if r.OK() {
			j.tally.readLogs(r, j)
		}
	}
}

// WriteProgress writes what Apply needs beyond that: the latest event of each
// job, the forgotten names and the events that wait for a submission.
func (f *Fold) WriteProgress(w *canon.Writer) {
	for _, j := range f.byID() {
		w.Key(j.top)
		w.Num(j.bad)
	}
	f.writeTombstones(w)
	f.writeWaiting(w)
}

// ReadProgress reads what WriteProgress wrote. Of all events, malformed could
// not be what they say; Malformed counts those that a job knows of afterwards.
func (f *Fold) ReadProgress(r *canon.Reader, malformed uint64) {
	for _, j := range f.byID() {
		j.top, j.bad = r.Key(), r.Num()
		r.Check(j.bad <= malformed, "latest event of a job")
		f.malformed += j.bad
	}
	f.readTombstones(r)
	f.readWaiting(r)
}

func (f *Fold) writeWaiting(w *canon.Writer) {
	type named struct {
		job   job.ID
		event event.Event
	}
	var all []named
	for id, j := range f.waiting {
		for _, e := range j.events {
			all = append(all, named{job: id, event: e})
		}
	}
	slices.SortFunc(all, func(a, b named) int { return canon.KeyOf(&a.event).Compare(canon.KeyOf(&b.event)) })
	w.Count(len(all))
	for _, n := range all {
		w.Key(canon.KeyOf(&n.event))
		w.Num(uint64(n.event.Term))
		w.Text(string(n.event.Kind))
		w.Text(string(n.job))
		w.Text(string(n.event.Body))
	}
}

func (f *Fold) readWaiting(r *canon.Reader) {
	for n := r.Count(); n > 0 && r.OK(); n-- {
		k := r.Key()
		e := event.Event{HLC: k.HLC, Source: k.Source, Seq: k.Seq, Term: r.Term(), Kind: event.Kind(r.Text(maxJobIDLen))}
		id := job.ID(r.Text(maxJobIDLen))
		e.Body = []byte(r.Text(r.Len()))
		r.Check(id != "" && waits(&e, id) && !f.erased(id, k), "waiting event")
		if !r.OK() {
			return
		}
		_, known := f.jobs[id]
		r.Check(!known, "waiting event")
		w := f.wait(id)
		w.events = append(w.events, e)
	}
}

// waits reports whether e is an event about a job that may wait for it.
func waits(e *event.Event, id job.ID) bool {
	var body struct {
		Job job.ID `json:"job"`
	}
	switch e.Kind {
	case event.KindJobQueued, event.KindJobZones, event.KindJobStopped, event.KindJobDone, event.KindChunksAssigned, event.KindChunkFailed,
		event.KindChunkReclaimed, event.KindChunkSaved, event.KindChunksReleased, event.KindChunkAccepted, event.KindChunksAccepted:
		return json.Unmarshal(e.Body, &body) == nil && body.Job == id && e.Term > 0
	}
	return false
}

func (j *foldedJob) write(w *canon.Writer) {
	w.Text(string(j.id))
	writeSpec(w, j.spec)
	w.Text(j.owner)
	w.Key(j.submittedAt)
	canon.WriteRegister(w, j.queued, w.Text)
	canon.WriteRegister(w, j.stop, func(s stop) {
		w.Text(s.actor)
		w.Text(s.reason)
		w.Text(string(s.cause))
	})
	canon.WriteRegister(w, j.done, func(d event.JobDone) {
		w.Text(string(d.State))
		w.Text(d.Reason)
	})
	j.tally.write(w)
	canon.WriteRegister(w, j.sealed, func(r *job.Result) { writeResult(w, r) })
	if j.sealed.V == nil {
		j.work.write(w)
	}
}

func readJob(r *canon.Reader) *foldedJob {
	j := &foldedJob{id: job.ID(r.Text(maxJobIDLen)), spec: readSpec(r)}
	r.Check(j.id != "" && j.spec.Validate() == nil, "job")
	if !r.OK() {
		return j
	}
	j.total = j.spec.Chunks()
	j.owner = r.Text(r.Len())
	j.submittedAt = r.Key()
	j.queued = canon.ReadRegister(r, func() string { return r.Text(cluster.MaxReason) })
	j.stop = canon.ReadRegister(r, func() stop {
		return stop{actor: r.Text(cluster.MaxReason), reason: r.Text(cluster.MaxReason), cause: job.StopCause(r.Text(cluster.MaxReason))}
	})
	r.Check(j.stop.V.cause.Known(), "stop of a job")
	j.done = canon.ReadRegister(r, func() event.JobDone {
		return event.JobDone{Job: j.id, State: job.State(r.Text(cluster.MaxReason)), Reason: r.Text(cluster.MaxReason)}
	})
	r.Check(j.done.At.IsZero() || j.done.V.State.Final(), "end of a job")
	j.tally.read(r)
	j.sealed = canon.ReadRegister(r, func() *job.Result { return readResult(r) })
	if j.sealed.V != nil {
		r.Check(j.sealed.V.Validate(j.spec) == nil, "result")
		return j
	}
	j.work.read(r, j.spec)
	return j
}

func writeSpec(w *canon.Writer, s job.Spec) {
	w.Text(s.Name)
	w.Text(s.Key)
	w.Text(s.Executor)
	if s.Executor == job.ExecutorExec {
		w.Text(s.Program)
	}
	w.Raw(s.Artefact[:])
	w.Raw(s.Config[:])
	w.Num(s.Iterations)
	w.Num(s.Chunk)
	w.Num(s.Seed)
	w.Count(s.Attempts)
	w.Float(s.TimeoutSeconds)
	w.Num(s.MemoryBytes)
	policy, err := json.Marshal(s.Policy)
	switch {
	case err != nil:
		panic("jobs: a valid policy cannot be encoded: " + err.Error())
	case string(policy) == "{}":
		policy = nil
	}
	w.Text(string(policy))
}

func readSpec(r *canon.Reader) job.Spec {
	s := job.Spec{
		Name: r.Text(job.MaxName), Key: r.Text(job.MaxKeyBytes), Executor: r.Text(job.MaxName),
	}
	if s.Executor == job.ExecutorExec {
		s.Program = r.Text(job.MaxProgramName)
	}
	s.Artefact, s.Config, s.Iterations, s.Chunk, s.Seed = r.Hash(), r.Hash(), r.Num(), r.Num(), r.Num()
	s.Attempts, s.TimeoutSeconds, s.MemoryBytes = r.Int(), r.Float(), r.Num()
	if policy := r.Text(maxPolicy); policy != "" {
		if err := json.Unmarshal([]byte(policy), &s.Policy); err != nil {
			r.Fail("policy: %v", err)
		}
	}
	return s
}

// maxPolicy bounds the text of a policy: its names, each byte escaped, and files.
const maxPolicy = 6*(job.MaxUsers*cluster.MaxPrincipal+job.MaxGroups*cluster.MaxGroupName+job.MaxZones*cluster.MaxZoneName) + 256*(job.MaxFiles+job.MaxOutputs) + 1<<14

func writeResult(w *canon.Writer, r *job.Result) {
	for _, n := range [...]int{r.Accepted, r.Failed, r.Disputed} {
		w.Count(n)
	}
	w.Num(r.Iterations)
	w.Num(uint64(r.Micros))
	w.Count(len(r.Metrics))
	for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
		m := r.Metrics[name]
		w.Text(name)
		w.Moments(m)
		w.Flag(m.Sketch != nil)
		if m.Sketch != nil {
			w.Sketch(m.Sketch)
		}
	}
	w.Count(len(r.Workers))
	for _, sh := range r.Workers {
		w.Node(sh.Worker)
		w.Count(sh.Chunks)
		w.Num(sh.Iterations)
	}
	w.Count(len(r.Skipped))
	for _, s := range r.Skipped {
		w.Count(s.First)
		w.Count(s.Last)
	}
	w.Count(len(r.Anomalies))
	for _, a := range r.Anomalies {
		w.Count(a.Chunk)
		w.Node(a.Worker)
		w.Text(a.Reason)
	}
}

func readResult(r *canon.Reader) *job.Result {
	out := &job.Result{Accepted: r.Int(), Failed: r.Int(), Disputed: r.Int(), Iterations: r.Num(), Micros: int64(r.Num())}
	for n := r.Count(); n > 0 && r.OK(); n-- {
		if out.Metrics == nil {
			out.Metrics = make(map[string]job.Metric)
		}
		name := r.Text(job.MaxMetricName)
		m := r.Moments()
		if r.Flag() {
			m.Sketch = r.Sketch()
		}
		out.Metrics[name] = m
	}
	for n := r.Count(); n > 0 && r.OK(); n-- {
		out.Workers = append(out.Workers, job.WorkShare{Worker: r.Node(false), Chunks: r.Int(), Iterations: r.Num()})
	}
	for n := r.Count(); n > 0 && r.OK(); n-- {
		out.Skipped = append(out.Skipped, job.Span{First: r.Int(), Last: r.Int()})
	}
	for n := r.Count(); n > 0 && r.OK(); n-- {
		out.Anomalies = append(out.Anomalies, job.Anomaly{Chunk: r.Int(), Worker: r.Node(false), Reason: r.Text(job.MaxAnomalyReason)})
	}
	return out
}
