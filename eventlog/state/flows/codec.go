package flows

import (
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/eventlog/state/canon"
)

// maxBody bounds the body of an event about a run, in bytes.
const maxBody = 16 << 20

// Write writes all of f as docs/state-format.md has it.
func (f *Fold) Write(w *canon.Writer) {
	w.Count(len(f.runs))
	for _, id := range f.ids() {
		r := f.runs[id]
		w.Text(string(id))
		w.Count(len(r.log))
		for _, e := range r.log {
			w.Key(e.at)
			w.Byte(e.kind)
			w.Count(len(e.body))
			w.Raw(e.body)
			w.Flush()
		}
	}
	graves := stillNeeded(f.graves)
	w.Count(len(graves))
	for _, id := range slices.Sorted(maps.Keys(graves)) {
		w.Text(string(id))
		w.Key(graves[id])
		w.Flush()
	}
}

// Read reads what Write wrote into f, which is empty.
func (f *Fold) Read(in *canon.Reader) {
	for n := in.Count(); n > 0 && in.OK(); n-- {
		id, r := flow.RunID(in.Text(flow.MaxName)), newRun()
		count := in.Count()
		in.Check(count > 0, "run of a workflow")
		for ; count > 0 && in.OK(); count-- {
			e := entry{at: in.Key(), kind: in.Byte()}
			size := in.Num()
			in.Check(int(e.kind) < len(kinds) && size <= maxBody, "event about a run")
			e.body = slices.Clone(in.Bytes(size))
			if !in.OK() {
				return
			}
			body, of := read(int(e.kind), e.body)
			in.Check(body != nil && of == id, "event about a run")
			in.Check(len(r.log) == 0 || r.log[len(r.log)-1].at.Less(e.at), "order of events about a run")
			r.insert(e, body)
		}
		f.runs[id] = r
	}
	for n := in.Count(); n > 0 && in.OK(); n-- {
		id, at := flow.RunID(in.Text(flow.MaxName)), in.Key()
		_, err := flow.ParseRunID(string(id))
		in.Check(err == nil, "run that was forgotten")
		if r := f.runs[id]; r != nil && len(r.log) > 0 {
			in.Check(!r.log[0].at.Less(at), "run that was forgotten")
		}
		f.graves[id] = at
	}
}
