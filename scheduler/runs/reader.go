package runs

import (
	"context"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	decide "github.com/skein-project/skein/scheduler/flow"
)

// Read reads a file that a job left, from whoever has it.
type Read func(ctx context.Context, f job.OutputFile) ([]byte, error)

// values are files of a provider, to be read.
type values struct {
	run   flow.RunID
	name  decide.Name
	files []job.OutputFile
}

// reader reads what providers left.
type reader struct {
	read  Read
	find  Find // nil: nothing is ever lost
	in    chan values
	out   chan<- Stored
	since map[name]time.Time // when files could not be read at first
}

func newReader(read Read, find Find, out chan<- Stored) *reader {
	return &reader{read: read, find: find, in: make(chan values, maxDocs), out: out, since: make(map[name]time.Time)}
}

// put hands files over, if there is room.
func (r *reader) put(v values) bool {
	select {
	case r.in <- v:
		return true
	default:
		return false
	}
}

// run reads files until ctx ends.
func (r *reader) run(ctx context.Context) {
	for {
		var v values
		select {
		case v = <-r.in:
		case <-ctx.Done():
			return
		}
		select {
		case r.out <- r.all(ctx, v):
		case <-ctx.Done():
			return
		}
	}
}

// all reads the files of one provider. Those that cannot be read are lost as those that a
// step is given: when every host was asked, or for long enough not all could be.
func (r *reader) all(ctx context.Context, v values) Stored {
	within, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	n, out := name{v.run, v.name}, Stored{run: v.run, name: v.name, values: make(map[string][]byte)}
	for _, f := range v.files {
		b, err := r.read(within, f)
		if err == nil {
			out.values[f.Name] = b
			continue
		}
		out.err = err
		if r.find == nil {
			return out
		}
		switch absent, sure := r.find(within, []cluster.Hash{f.Hash}); {
		case len(absent) == 0:
		case sure, !r.since[n].IsZero() && time.Since(r.since[n]) >= lostAfter:
			delete(r.since, n)
			out.lost, out.err = absent, nil
		case r.since[n].IsZero():
			r.since[n] = time.Now()
		}
		return out
	}
	delete(r.since, n)
	return out
}
