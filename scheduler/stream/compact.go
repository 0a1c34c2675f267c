package stream

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// The frames that come once per chunk have a short form. Its first byte says
// which it is, and no JSON object begins with one of these.
const (
	compactAssign   = 1 // an Assign of a job whose spec was sent on this stream before
	compactAccepted = 2
	compactResult   = 3 // a Result without error
	compactWorker   = 4 // one of the others about a worker: its name, none if as before, and the frame
)

// compact appends the short form of f, if it has one.
func compact(b []byte, f *Frame) ([]byte, bool) {
	switch {
	case f.Accepted != nil:
		return appendAccepted(b, f.Accepted), true
	case f.Result != nil && plain(f.Result):
		return appendResult(b, f.Result), true
	}
	return b, false
}

// plain reports that the short form can tell r.
func plain(r *Result) bool {
	if r.Result == nil || r.Result.Metrics == nil || r.Result.Outputs != nil || r.Error != "" || r.Class != job.FailedWork {
		return false
	}
	for _, m := range r.Result.Metrics {
		if m != (job.Metric{N: m.N, Mean: m.Mean, M2: m.M2, Min: m.Min, Max: m.Max}) {
			return false
		}
	}
	return r.Chunk >= 0 && r.Number >= 0
}

func appendAssign(b []byte, a *Assign) []byte {
	b = append(b, compactAssign)
	b = binary.AppendUvarint(b, uint64(a.Term))
	b = binary.AppendUvarint(b, a.Seq)
	b = appendString(b, string(a.Job))
	b = binary.AppendUvarint(b, uint64(len(a.Chunks)))
	for _, c := range a.Chunks {
		b = binary.AppendUvarint(b, uint64(c.Chunk))
		b = binary.AppendUvarint(b, uint64(c.Number))
	}
	return b
}

// appendAccepted names a job only where it is another one than before.
func appendAccepted(b []byte, a *Accepted) []byte {
	b = append(b, compactAccepted)
	b = binary.AppendUvarint(b, uint64(a.Term))
	b = binary.AppendUvarint(b, uint64(len(a.Refs)))
	job := job.ID("")
	for _, r := range a.Refs {
		name := r.Job
		if name == job {
			name = ""
		}
		job = r.Job
		b = appendString(b, string(name))
		b = binary.AppendUvarint(b, uint64(r.Chunk))
		b = binary.AppendUvarint(b, uint64(r.Number))
	}
	return b
}

func appendResult(b []byte, r *Result) []byte {
	b = append(b, compactResult)
	b = appendString(b, string(r.Job))
	b = binary.AppendUvarint(b, uint64(r.Chunk))
	b = binary.AppendUvarint(b, uint64(r.Number))
	b = appendFloat(b, r.Seconds)
	b = binary.AppendUvarint(b, r.Result.Iterations)
	b = binary.AppendUvarint(b, uint64(len(r.Result.Metrics)))
	for _, name := range slices.Sorted(maps.Keys(r.Result.Metrics)) {
		m := r.Result.Metrics[name]
		b = appendString(b, name)
		b = binary.AppendUvarint(b, m.N)
		for _, v := range [...]float64{m.Mean, m.M2, m.Min, m.Max} {
			b = appendFloat(b, v)
		}
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendFloat(b []byte, v float64) []byte {
	return binary.BigEndian.AppendUint64(b, math.Float64bits(v))
}

// cursor reads a short form. After the first thing that is not there it
// returns zeros, and bad stays set.
type cursor struct {
	b    []byte
	bad  bool
	last string // the string before this one: most frames are of the same job
}

func (c *cursor) uint() uint64 {
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.bad, c.b = true, nil
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) int() int {
	v := c.uint()
	if v > math.MaxInt32 {
		c.bad = true
		return 0
	}
	return int(v)
}

// count is a number of things that take least bytes each: no more than the
// frame has room for.
func (c *cursor) count(least int) int {
	v := c.uint()
	if v > uint64(len(c.b)/least) {
		c.bad, c.b = true, nil
		return 0
	}
	return int(v)
}

func (c *cursor) string() string {
	n := c.count(1)
	s := c.b[:n]
	c.b = c.b[n:]
	if string(s) != c.last {
		c.last = string(s)
	}
	return c.last
}

// float is finite, as it is in JSON.
func (c *cursor) float() float64 {
	if len(c.b) < 8 {
		c.bad, c.b = true, nil
		return 0
	}
	v := math.Float64frombits(binary.BigEndian.Uint64(c.b))
	c.b = c.b[8:]
	if math.IsNaN(v) || math.IsInf(v, 0) {
		c.bad = true
		return 0
	}
	return v
}

// expand reads the short form in b; job is the one that the frame before this
// one named.
func expand(b []byte, job job.ID, before func(job.ID) (Assign, bool)) (Frame, error) {
	c := &cursor{b: b[1:], last: string(job)}
	var f Frame
	switch b[0] {
	case compactAssign:
		a := c.assign()
		known, ok := before(a.Job)
		if a.Spec, a.Owner = known.Spec, known.Owner; !ok && !c.bad {
			return Frame{}, fmt.Errorf("%w: assign of job %.64q, whose spec was not sent", ErrFrame, a.Job)
		}
		f.Assign = a
	case compactAccepted:
		f.Accepted = c.accepted()
	case compactResult:
		f.Result = c.result()
	default:
		return Frame{}, fmt.Errorf("%w: begins with byte %d", ErrFrame, b[0])
	}
	if c.bad || len(c.b) > 0 {
		return Frame{}, fmt.Errorf("%w: short form %d of %d bytes is cut or too long", ErrFrame, b[0], len(b))
	}
	return f, nil
}

func (c *cursor) assign() *Assign {
	a := &Assign{Term: cluster.Term(c.uint()), Seq: c.uint(), Job: job.ID(c.string())}
	a.Chunks = make([]job.Attempt, c.count(2))
	for i := range a.Chunks {
		a.Chunks[i] = job.Attempt{Chunk: c.int(), Number: c.int()}
	}
	return a
}

func (c *cursor) accepted() *Accepted {
	a := &Accepted{Term: cluster.Term(c.uint()), Refs: make([]job.Attempt, c.count(3))}
	j := ""
	for i := range a.Refs {
		if name := c.string(); name != "" {
			j = name
		}
		a.Refs[i] = job.Attempt{Job: job.ID(j), Chunk: c.int(), Number: c.int()}
	}
	return a
}

func (c *cursor) result() *Result {
	r := &Result{Attempt: job.Attempt{Job: job.ID(c.string()), Chunk: c.int(), Number: c.int()}, Seconds: c.float()}
	r.Result = &job.ChunkResult{Iterations: c.uint()}
	n := c.count(34)
	r.Result.Metrics = make(map[string]job.Metric, n)
	for range n {
		name := c.string()
		r.Result.Metrics[name] = job.Metric{N: c.uint(), Mean: c.float(), M2: c.float(), Min: c.float(), Max: c.float()}
	}
	if len(r.Result.Metrics) != n {
		c.bad = true // a name twice
	}
	return r
}
