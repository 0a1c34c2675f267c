package jobs

import (
	"crypto/sha256"
	"io"
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state/canon"
)

// outputs are the files that the chunks of a job left, by chunk: those of the result that
// counts. They outlive the chunks, and what is learned after the end counts too: which
// files are kept must not depend on the order of events.
type outputs map[int]*left

// left is what one chunk left. It is never changed.
type left struct {
	accept
	files job.Files
}

// holds reports whether files are what the chunk left, as far as is known.
func (o outputs) holds(chunk int, files job.Files) bool {
	l, ok := o[chunk]
	return !ok || l.files.Equal(files)
}

// take folds what came with a result.
func (o *outputs) take(chunk int, a *accept, files job.Files) {
	if len(files) == 0 {
		return
	}
	if old, ok := (*o)[chunk]; ok && !a.before(&old.accept) {
		return
	}
	if *o == nil {
		*o = make(outputs)
	}
	(*o)[chunk] = &left{accept: *a, files: maps.Clone(files)}
}

// sum is what the result of a job says of them, and nil if there are none.
func (o outputs) sum() *job.OutputSum {
	if len(o) == 0 {
		return nil
	}
	out, digest := &job.OutputSum{}, sha256.New()
	for f := range o.each {
		out.Files++
		out.Bytes += f.Size
		_, _ = io.WriteString(digest, f.Line()) // never fails
	}
	digest.Sum(out.Manifest[:0])
	return out
}

// each yields the files by chunk and name.
func (o outputs) each(yield func(job.OutputFile) bool) {
	for _, chunk := range slices.Sorted(maps.Keys(o)) {
		l := o[chunk]
		for _, name := range slices.Sorted(maps.Keys(l.files)) {
			if !yield(job.OutputFile{Chunk: chunk, Name: name, File: l.files[name], Worker: l.worker}) {
				return
			}
		}
	}
}

// OutputsOf lists the files that the chunks of a job left, by chunk and name.
func OutputsOf(f *Fold, id job.ID) (out []job.OutputFile) {
	if j, ok := f.jobs[id]; ok {
		out = slices.Collect(j.outputs.each)
	}
	return out
}

// Output is a file that a chunk of a job left.
func Output(f *Fold, id job.ID, chunk int, name string) (job.OutputFile, bool) {
	j, ok := f.jobs[id]
	if !ok {
		return job.OutputFile{}, false
	}
	l, ok := j.outputs[chunk]
	if !ok {
		return job.OutputFile{}, false
	}
	file, ok := l.files[name]
	return job.OutputFile{Chunk: chunk, Name: name, File: file, Worker: l.worker}, ok
}

// OutputBytes is how many bytes the chunks of a job left.
func OutputBytes(f *Fold, id job.ID) (n int64) {
	if j, ok := f.jobs[id]; ok {
		for _, l := range j.outputs {
			n += l.files.Bytes()
		}
	}
	return n
}

// Left says of hashes whose outputs they are: for each that some job left, whether one of
// owner's did.
func Left(f *Fold, owner string, hashes map[cluster.Hash]bool) map[cluster.Hash]bool {
	own := make(map[cluster.Hash]bool)
	for _, j := range f.jobs {
		for _, l := range j.outputs {
			for _, file := range l.files {
				if hashes[file.Hash] {
					own[file.Hash] = own[file.Hash] || j.owner == owner
				}
			}
		}
	}
	return own
}

// HaveFiles reports whether there are jobs with files, outputs or a kind of result, which
// older versions of the bytes have no place for.
func HaveFiles(f *Fold) bool {
	for _, j := range f.jobs {
		if j.spec.HasFiles() {
			return true
		}
	}
	return false
}

// WriteOutputs writes what the chunks of the jobs left.
func WriteOutputs(f *Fold, w *canon.Writer) {
	list := slices.DeleteFunc(f.byID(), func(j *foldedJob) bool { return !j.hasOutputs() })
	w.Count(len(list))
	for _, j := range list {
		w.Text(string(j.id))
		sum := j.sealedOutputs()
		w.Flag(sum != nil)
		if sum != nil {
			w.Raw(sum.Manifest[:])
			w.Count(sum.Files)
			w.Num(uint64(sum.Bytes))
		}
		w.Count(len(j.outputs))
		for _, chunk := range slices.Sorted(maps.Keys(j.outputs)) {
			l := j.outputs[chunk]
			w.Count(chunk)
			w.Key(l.at)
			w.Count(l.attempt)
			w.Node(l.worker)
			w.Num(uint64(l.micros))
			w.Flag(l.settles)
			for _, name := range j.spec.Outputs {
				h := l.files[name].Hash
				w.Raw(h[:])
				w.Num(uint64(l.files[name].Size))
			}
		}
		w.Flush()
	}
}

func (j *foldedJob) hasOutputs() bool { return len(j.outputs) > 0 || j.sealedOutputs() != nil }

func (j *foldedJob) sealedOutputs() *job.OutputSum {
	if j.sealed.V == nil {
		return nil
	}
	return j.sealed.V.Outputs
}

// ReadOutputs reads what WriteOutputs wrote, of jobs that Read has read.
func ReadOutputs(f *Fold, r *canon.Reader) {
	for n := r.Count(); n > 0 && r.OK(); n-- {
		j, ok := f.jobs[job.ID(r.Text(maxJobIDLen))]
		r.Check(ok && len(j.spec.Outputs) > 0 && !j.hasOutputs(), "job with outputs")
		if r.OK() {
			j.readOutputs(r)
		}
	}
}

func (j *foldedJob) readOutputs(r *canon.Reader) {
	if r.Flag() {
		sum := &job.OutputSum{Manifest: r.Hash(), Files: r.Int(), Bytes: int64(r.Num())}
		r.Check(j.sealed.V != nil, "outputs of a job")
		if !r.OK() {
			return
		}
		j.sealed.V.Outputs = sum
		r.Check(j.sealed.V.Validate(j.spec) == nil, "outputs of a job")
	}
	for n := r.Count(); n > 0 && r.OK(); n-- {
		chunk := r.Int()
		l := &left{accept: accept{at: r.Key(), attempt: r.Int(), worker: r.Node(false)}}
		us := r.Num()
		l.micros, l.settles = int64(us), r.Flag()
		l.files = make(job.Files, len(j.spec.Outputs))
		for _, name := range j.spec.Outputs {
			l.files[name] = job.File{Hash: r.Hash(), Size: int64(r.Num())}
		}
		r.Check(us <= maxMicros && j.has(chunk, l.attempt) && j.outputs[chunk] == nil && j.spec.CheckFiles(l.files) == nil, "outputs of a chunk")
		if !r.OK() {
			return
		}
		if j.outputs == nil {
			j.outputs = make(outputs)
		}
		j.outputs[chunk] = l
	}
}
