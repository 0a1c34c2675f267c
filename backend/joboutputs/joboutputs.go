package joboutputs

import (
	"context"
	"io"
	"maps"
	"slices"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
)

// Artefacts are those that this host keeps, and reads from others.
type Artefacts interface {
	Has(cluster.Hash) (int64, bool)
	Fetch(ctx context.Context, h cluster.Hash, from []cluster.NodeID) error
	Stream(ctx context.Context, h cluster.Hash, size int64, from []cluster.NodeID) (io.ReadCloser, error)
}

// Options of Outputs. All must be set.
type Options struct {
	Log       interface{ View(func(*state.State)) }
	Artefacts Artefacts
	// Aware refuses events of a kind that a member which lives does not know.
	Aware func(event.Kind) error
}

// Outputs reads what jobs left. Its methods may be called from any goroutine.
type Outputs struct{ o Options }

// New returns Outputs.
func New(o Options) *Outputs { return &Outputs{o: o} }

// JobOutputs implements status/joboutputs.Source.
func (o *Outputs) JobOutputs(_ context.Context, id job.ID) (api.JobOutputs, error) {
	out, known := api.JobOutputs{Job: id, Outputs: []job.OutputFile{}}, false
	o.o.Log.View(func(s *state.State) {
		var j state.Job
		if j, known = s.Job(id); known {
			out.Sum, out.Outputs = j.Outputs, append(out.Outputs, s.Outputs(id)...)
		}
	})
	if !known {
		return out, api.Errorf(api.CodeNotFound, "no job %s", id).WithHint("see `skein job ls`")
	}
	return out, nil
}

// OpenOutput implements status/joboutputs.Source.
func (o *Outputs) OpenOutput(ctx context.Context, id job.ID, chunk int, name string) (job.OutputFile, io.ReadCloser, error) {
	var f job.OutputFile
	known := false
	o.o.Log.View(func(s *state.State) { f, known = s.Output(id, chunk, name) })
	if !known {
		return f, nil, api.Errorf(api.CodeNotFound, "chunk %d of job %s has no output %.64q", chunk, id, name).
			WithHint("see `skein job outputs %s`", id)
	}
	r, err := o.o.Artefacts.Stream(ctx, f.Hash, f.Size, []cluster.NodeID{f.Worker})
	if err != nil {
		return f, nil, api.Errorf(api.CodeNotReady, "output %s of chunk %d of job %s: no host that is up has it: %v", name, chunk, id, err).
			WithHint("it was made on %s; `skein members` shows which hosts are up", f.Worker)
	}
	return f, r, nil
}

// CheckFiles refuses a job of owner with files that are not the owner's to give, or while a
// member that lives does not know what files of jobs are. It returns those that were
// uploaded, which must not be lost with the host that has them.
func (o *Outputs) CheckFiles(ctx context.Context, spec job.Spec, owner string) (uploads []cluster.Hash, err error) {
	if !spec.HasFiles() {
		return nil, nil
	}
	if err := o.o.Aware(event.FilesOfJob()); err != nil {
		return nil, err
	}
	if len(spec.Files) == 0 {
		return nil, nil
	}
	wanted := make(map[cluster.Hash]bool)
	for _, h := range spec.Files {
		wanted[h] = true
	}
	var left map[cluster.Hash]bool
	o.o.Log.View(func(s *state.State) { left = s.Left(owner, wanted) })
	for _, name := range slices.Sorted(maps.Keys(spec.Files)) {
		h := spec.Files[name]
		own, others := left[h]
		if own {
			continue
		}
		if _, here := o.o.Artefacts.Has(h); !here && (others || o.o.Artefacts.Fetch(ctx, h, nil) != nil) {
			return nil, api.Errorf(api.CodeNotFound, "files: %s: %s is neither an output of a job of %s nor an upload", name, h, owner).
				WithHint("upload it first: PUT /v1/artefacts, or `skein job run --files NAME=PATH`")
		}
		uploads = append(uploads, h)
	}
	return uploads, nil
}
