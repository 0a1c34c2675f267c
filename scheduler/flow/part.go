package flow

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/flow/template"
)

// Part are chunks of a job that has ended, which another computes again.
type Part struct {
	Of    job.ID
	Span  job.Span
	Files int // that its chunks left of one name, one each; 0: not known
}

// partKey is the key of the job that does.
func partKey(key string, s job.Span) string { return fmt.Sprintf("%s/%d-%d", key, s.First, s.Last) }

// partOf says which chunks of an instance left files that are lost; nil: that is not known,
// or may be all of them.
func (m restorer) partOf(p place, lost []cluster.Hash) *Part {
	n, in := &m.g.nodes[p.step], &m.steps[p.step].inst[p.index]
	if !m.run.Keeps || in.state != flow.Completed || in.job == "" {
		return nil
	}
	out := Part{Of: in.job, Span: job.Span{First: math.MaxInt, Last: -1}}
	for name, s := range n.outputs {
		if !s.IsFile() {
			continue
		}
		each(in.outputs[name], s.Chunk, func(chunk int, h cluster.Hash) {
			if slices.Contains(lost, h) {
				out.Span.First, out.Span.Last = min(out.Span.First, chunk), max(out.Span.Last, chunk)
			}
		})
		if s.Chunk < 0 {
			var list []any
			_ = json.Unmarshal(in.outputs[name], &list) // or it is a file
			out.Files = max(out.Files, len(list), 1)
		}
	}
	if out.Span.Last < 0 || out.Span.First == 0 && out.Span.Last == out.Files-1 {
		return nil
	}
	return &out
}

// each calls f with the files in an output, by the chunks that left them: a list has one of
// each chunk.
func each(output json.RawMessage, chunk int, f func(chunk int, h cluster.Hash)) {
	v, err := template.Decode(output)
	if err != nil {
		return
	}
	hashes, err := hashesOf(v, nil)
	for k, h := range hashes {
		if err == nil {
			f(max(chunk, 0)+k, h)
		}
	}
}

// differs names an output of which a part has other files than were lost; "" there is none.
func (m restorer) differs(p place, s job.Span, left []job.OutputFile) (output string) {
	n, in := &m.g.nodes[p.step], &m.steps[p.step].inst[p.index]
	for name, from := range n.outputs {
		if !from.IsFile() {
			continue
		}
		each(in.outputs[name], from.Chunk, func(chunk int, h cluster.Hash) {
			if chunk >= s.First && chunk <= s.Last && !slices.ContainsFunc(left, func(f job.OutputFile) bool {
				return f.Chunk == chunk-s.First && f.Name == from.File && f.Hash == h
			}) {
				output = name
			}
		})
	}
	return output
}
