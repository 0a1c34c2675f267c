package jobs

import (
	"crypto/sha256"
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state/canon"
)

// tree merges the metrics of n chunks pairwise. Its shape depends on n alone:
// node i of a level merges nodes 2i and 2i+1 of the level below, and a node
// without sibling is carried up. The root is the same, to the bit, in whatever
// order the leaves are set.
//
// Sketches merge to the same in any order, so there is one of all leaves. It
// cannot forget a leaf; of each it is known only by its mark.
type tree struct {
	levels [][]job.Metric // leaves first, the root last; none has a sketch
	sketch *job.Sketch    // of the leaves that have a mark
	marks  []mark         // of the leaves; nil: none has a sketch
}

// mark tells sketches apart; zero: there is none.
type mark [16]byte

func markOf(s *job.Sketch) (m mark) {
	if s == nil {
		return m
	}
	sum := sha256.Sum256(canon.AppendSketch(nil, s))
	copy(m[:], sum[:])
	return m
}

func newTree(n int) *tree {
	t := &tree{}
	for {
		t.levels = append(t.levels, make([]job.Metric, n))
		if n <= 1 {
			return t
		}
		n = (n + 1) / 2
	}
}

// set changes leaf i and the path above it. A sketch is added unless it is the
// one that the leaf had.
func (t *tree) set(i int, m job.Metric) {
	if t.levels[0][i].N == 0 && m.N == 0 {
		return
	}
	t.setSketch(i, m.Sketch)
	m.Sketch = nil
	t.levels[0][i] = m
	for l := 1; l < len(t.levels); l++ {
		i /= 2
		t.join(l, i)
	}
}

func (t *tree) setSketch(i int, s *job.Sketch) {
	if s == nil && t.marks == nil {
		return
	}
	if t.marks == nil {
		t.marks = make([]mark, len(t.levels[0]))
	}
	m := markOf(s)
	if t.marks[i] == m {
		return
	}
	t.marks[i] = m
	switch {
	case s == nil:
	case t.sketch == nil:
		t.sketch = s.Coarsen(job.MaxMergedBuckets)
	default:
		t.sketch = t.sketch.Merge(s, job.MaxMergedBuckets)
	}
}

// is reports whether m is leaf i.
func (t *tree) is(i int, m job.Metric) bool {
	if t.marks != nil && t.marks[i] != markOf(m.Sketch) || t.marks == nil && m.Sketch != nil {
		return false
	}
	m.Sketch = nil
	return t.levels[0][i] == m
}

// join merges what is below node i of level l.
func (t *tree) join(l, i int) {
	below := t.levels[l-1]
	v := below[2*i]
	if 2*i+1 < len(below) {
		v = v.Merge(below[2*i+1])
	}
	t.levels[l][i] = v
}

// build computes all nodes above the leaves.
func (t *tree) build() {
	for l := 1; l < len(t.levels); l++ {
		for i := range t.levels[l] {
			t.join(l, i)
		}
	}
}

func (t *tree) clone() *tree {
	c := &tree{levels: slices.Clone(t.levels), sketch: t.sketch, marks: slices.Clone(t.marks)}
	for l := range c.levels {
		c.levels[l] = slices.Clone(c.levels[l])
	}
	return c
}

// root is all leaves merged. It has a sketch if every leaf has one.
func (t *tree) root() job.Metric {
	m := t.levels[len(t.levels)-1][0]
	if t.sketch.Count() == m.N {
		m.Sketch = t.sketch
	}
	return m
}

// trees are those of a job's metrics, by name.
type trees map[string]*tree

// holds reports whether metrics are the chunk's leaves.
func (ts trees) holds(chunk int, metrics map[string]job.Metric) bool {
	for name, t := range ts {
		if !t.is(chunk, metrics[name]) {
			return false
		}
	}
	for name := range metrics {
		if ts[name] == nil {
			return false
		}
	}
	return true
}

// store makes metrics the leaves of a chunk, of so many.
func (ts trees) store(total, chunk int, metrics map[string]job.Metric) {
	for name, m := range metrics {
		t, ok := ts[name]
		if !ok {
			t = newTree(total)
			ts[name] = t
		}
		t.set(chunk, m)
	}
	for name, t := range ts {
		if _, ok := metrics[name]; !ok {
			t.set(chunk, job.Metric{})
		}
	}
}

// metrics merges all leaves, nil if there are none. Blurred sketches are left
// out; of many, each is made coarser, so that they can be told together.
func (ts trees) metrics(blurred bool) map[string]job.Metric {
	var out map[string]job.Metric
	sketches := 0
	for name, t := range ts {
		m := t.root()
		if m.N == 0 {
			continue
		}
		if blurred {
			m.Sketch = nil
		}
		if m.Sketch != nil {
			sketches++
		}
		if out == nil {
			out = make(map[string]job.Metric, len(ts))
		}
		out[name] = m
	}
	for name, m := range out {
		if m.Sketch != nil {
			m.Sketch = m.Sketch.Coarsen(max(minBuckets, maxResultBuckets/sketches))
			out[name] = m
		}
	}
	return out
}

// Buckets of all sketches of a job's result together, and of each at least.
const (
	maxResultBuckets = 1 << 15
	minBuckets       = 64
)

// write writes the leaves of the trees; the rest follows from them, but for the
// sketches, which are left out if they are blurred.
func (ts trees) write(w *canon.Writer, blurred bool) {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(ts)) {
		if ts[name].root().N > 0 {
			names = append(names, name)
		}
	}
	w.Count(len(names))
	for _, name := range names {
		w.Text(name)
		t := ts[name]
		for _, m := range t.levels[0] {
			w.Moments(m)
			w.Flush()
		}
		t.writeMarks(w, blurred)
	}
}

// writeMarks writes the marks of the leaves, if any has one, and the sketch
// unless it is blurred.
func (t *tree) writeMarks(w *canon.Writer, blurred bool) {
	marked := slices.ContainsFunc(t.marks, func(m mark) bool { return m != mark{} })
	w.Flag(marked)
	if !marked {
		return
	}
	for i, m := range t.marks {
		if t.levels[0][i].N > 0 {
			w.Raw(m[:])
			w.Flush()
		}
	}
	if !blurred {
		w.Sketch(t.sketch)
	}
}

// readMarks reads the marks of a tree's leaves and the sketch of those that have
// one.
func (t *tree) readMarks(r *canon.Reader, blurred bool) {
	t.marks = make([]mark, len(t.levels[0]))
	var marked job.Metric // the leaves that have one
	for i, m := range t.levels[0] {
		if m.N == 0 || !r.OK() {
			continue
		}
		copy(t.marks[i][:], r.Bytes(uint64(len(mark{}))))
		if t.marks[i] != (mark{}) {
			marked = marked.Merge(m)
		}
	}
	r.Check(marked.N > 0, "marks")
	if !blurred {
		t.sketch = r.Sketch()
		r.Check(!r.OK() || t.sketch.Validate(marked, job.MaxMergedBuckets) == nil, "sketch")
	}
}
