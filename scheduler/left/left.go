package left

import (
	"fmt"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/stream"
)

// Log says what the log has of an open job.
type Log struct {
	Logged func(job.ID) int   // failures that name what was said
	Bytes  func(job.ID) int64 // of files that accepted chunks left
	// Unaware lists the members that live and do not know events of a kind.
	Unaware func(event.Kind) []cluster.NodeID
}

// Results is what came with the results of one term. See New.
type Results struct {
	log   Log
	of    job.Attempt // whose result the plan is about to judge
	said  cluster.Hash
	named map[job.ID]int   // logs that events name, of open jobs; of those that are not in it the log knows
	bytes map[job.ID]int64 // of files, the same
}

// New returns Results without any.
func New(log Log) *Results {
	return &Results{log: log, named: make(map[job.ID]int), bytes: make(map[job.ID]int64)}
}

// Hear takes what came with a result, until the next call.
func (r *Results) Hear(a job.Attempt, said cluster.Hash) { r.of, r.said = a, said }

// Bound turns a result into a failure if with its files the job would leave more than it
// may.
func (r *Results) Bound(spec job.Spec, res stream.Result) stream.Result {
	if res.Result == nil || len(res.Result.Outputs) == 0 || len(spec.Outputs) == 0 {
		return res
	}
	if have, more := r.stored(res.Job), res.Result.Outputs.Bytes(); more < 0 || more > spec.OutputLimit()-have {
		res.Result = nil
		res.Error = fmt.Sprintf("outputs: %d bytes, and other chunks left %d: more than output_bytes, which is %d", more, have, spec.OutputLimit())
	}
	return res
}

func (r *Results) stored(id job.ID) int64 {
	n, known := r.bytes[id]
	if !known {
		n = r.log.Bytes(id)
		r.bytes[id] = n
	}
	return n
}

// Note takes in what is to be logged. It has the event of a failure name what the attempt
// said, for the first failures of its job, as soon as everybody who folds it knows what
// that is.
func (r *Results) Note(d *event.Draft) {
	switch b := d.Body.(type) {
	case event.ChunksAccepted:
		for _, a := range b.Accepts {
			if n := a.Result.Outputs.Bytes(); n > 0 {
				r.bytes[b.Job] = r.stored(b.Job) + n
			}
		}
	case event.ChunkFailed:
		if r.said.IsZero() || (job.Attempt{Job: b.Job, Chunk: b.Chunk, Number: b.Attempt, Worker: b.Worker}) != r.of {
			return
		}
		if len(r.log.Unaware(event.LogOfFailure())) > 0 {
			return
		}
		n, known := r.named[b.Job]
		if !known {
			n = r.log.Logged(b.Job)
		}
		if n < job.MaxLogs {
			b.Log, n = r.said, n+1
			d.Body = b
		}
		r.named[b.Job] = n
	}
}

// Ended forgets a job.
func (r *Results) Ended(id job.ID) {
	delete(r.named, id)
	delete(r.bytes, id)
}
