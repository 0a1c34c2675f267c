package loads

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state/canon"
)

const (
	// life is how long a load test is known after its end.
	life = 30 * 24 * time.Hour
	// maxBody bounds the body of an event about one, in bytes.
	maxBody = 1 << 20
)

// Fold is what the events applied so far mean for load tests. The zero value is not
// usable, see New.
type Fold struct {
	all map[event.LoadID]canon.Register[said]
}

// said is what was said of a load test, as it was written and as it is read.
type said struct {
	body []byte
	b    event.LoadRun
}

// New returns the Fold of an empty log.
func New() *Fold { return &Fold{all: make(map[event.LoadID]canon.Register[said])} }

// Clone returns an independent copy.
func (f *Fold) Clone() *Fold { return &Fold{all: maps.Clone(f.all)} }

// Empty reports whether there is nothing to write.
func (f *Fold) Empty() bool { return len(f.needed()) == 0 }

// Apply folds an event, if it is about load tests. ok is false if it cannot be what it
// says.
func (f *Fold) Apply(e *event.Event) (about, ok bool) {
	if e.Kind != event.KindLoadRun {
		return false, true
	}
	s, ok := readSaid(e.Body)
	if ok {
		one := f.all[s.b.Run]
		one.Set(canon.KeyOf(e), s)
		f.all[s.b.Run] = one
	}
	return true, ok
}

func readSaid(body []byte) (s said, ok bool) {
	s.body = body
	ok = len(body) <= maxBody && json.Unmarshal(body, &s.b) == nil && s.b.Check() == nil
	return s, ok
}

// Settle drops what is needed no more, when what is folded becomes a base.
func (f *Fold) Settle() { f.all = f.needed() }

// needed leaves out those that ended long ago.
func (f *Fold) needed() map[event.LoadID]canon.Register[said] {
	var newest cluster.HLC
	for _, r := range f.all {
		newest = max(newest, r.At.HLC)
	}
	out := make(map[event.LoadID]canon.Register[said], len(f.all))
	for id, r := range f.all {
		if r.V.b.Open() || newest.Time().Sub(r.At.HLC.Time()) <= life {
			out[id] = r
		}
	}
	return out
}

// Write writes all of f as docs/state-format.md has it.
func (f *Fold) Write(w *canon.Writer) {
	all := f.needed()
	w.Count(len(all))
	for _, id := range slices.Sorted(maps.Keys(all)) {
		r := all[id]
		w.Key(r.At)
		w.Count(len(r.V.body))
		w.Raw(r.V.body)
		w.Flush()
	}
}

// Read reads what Write wrote into f, which is empty.
func (f *Fold) Read(in *canon.Reader) {
	for n := in.Count(); n > 0 && in.OK(); n-- {
		at, size := in.Key(), in.Num()
		in.Check(size <= maxBody, "load test")
		if !in.OK() {
			return
		}
		s, ok := readSaid(slices.Clone(in.Bytes(size)))
		in.Check(ok && !at.IsZero(), "load test")
		f.all[s.b.Run] = canon.Register[said]{At: at, V: s}
	}
}

// Run is what the log says of a load test. Nothing in it is to be changed.
type Run struct {
	event.LoadRun
	Set cluster.HLC // when that was said
}

// Run returns one; false: there is none.
func (f *Fold) Run(id event.LoadID) (Run, bool) {
	r, ok := f.all[id]
	return Run{r.V.b, r.At.HLC}, ok
}

// Runs returns all there are, the one that was submitted first before the others.
func (f *Fold) Runs() []Run {
	out := make([]Run, 0, len(f.all))
	for _, r := range f.all {
		out = append(out, Run{r.V.b, r.At.HLC})
	}
	slices.SortFunc(out, func(a, b Run) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), strings.Compare(string(a.Run), string(b.Run)))
	})
	return out
}

// AddArtefacts adds to need what those need that have not ended.
func (f *Fold) AddArtefacts(need map[cluster.Hash]bool) {
	for _, r := range f.all {
		if r.V.b.Open() {
			need[r.V.b.Bundle] = true
		}
	}
}

// AddReports adds to kept the reports of those that are known.
func (f *Fold) AddReports(kept map[cluster.Hash]bool) {
	for _, r := range f.all {
		if !r.V.b.Report.IsZero() {
			kept[r.V.b.Report] = true
		}
	}
}
