package job

import (
	"cmp"
	"fmt"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/jsonbytes"
)

// Attempt is one attempt at a chunk: what the plan hands to a worker, what a
// frame or an event is about. The attempts at a chunk are numbered from 1.
//
// Job is empty where it stands beside a list of attempts, as in events. Frames
// between scheduler and worker name no Worker: it is the one at the other end.
type Attempt struct {
	Job    ID             `json:"job,omitempty"`    // of the chunk
	Chunk  int            `json:"chunk"`            // from 0
	Number int            `json:"attempt"`          // from 1
	Worker cluster.NodeID `json:"worker,omitempty"` // the host that runs it
}

// String returns "job/chunk#number".
func (a Attempt) String() string { return fmt.Sprintf("%s/%d#%d", a.Job, a.Chunk, a.Number) }

// Write appends the JSON form of a, the same bytes as those of json.Marshal.
func (a *Attempt) Write(w *jsonbytes.Writer) {
	w.Lit(`{`)
	if a.Job != "" {
		w.Lit(`"job":`).Text(string(a.Job))
		w.Lit(`,`)
	}
	w.Lit(`"chunk":`).Int(a.Chunk)
	w.Lit(`,"attempt":`).Int(a.Number)
	if a.Worker != "" {
		w.Lit(`,"worker":`).Text(string(a.Worker))
	}
	w.Lit(`}`)
}

// Compare orders attempts by job, chunk and number.
func (a Attempt) Compare(o Attempt) int {
	return cmp.Or(cmp.Compare(a.Job, o.Job), cmp.Compare(a.Chunk, o.Chunk), cmp.Compare(a.Number, o.Number))
}

// At is a at a worker.
func (a Attempt) At(worker cluster.NodeID) Attempt {
	a.Worker = worker
	return a
}
