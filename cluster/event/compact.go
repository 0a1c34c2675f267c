package event

import (
	"encoding/json"
	"strconv"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// Nearly all events of a busy log are of the kinds below, and nearly all of
// their bodies are exactly what AppendBody writes: these are read several times
// faster than by encoding/json. A body that differs in any way is left to
// encoding/json, which reads the same from both.

// ReadBody reads the body of e into body, a zero value of the body type of its
// kind. Metrics are valid until the next call with the same Scratch. The error is
// that of encoding/json.
func ReadBody[T any](body *T, e *Event, sc *Scratch) error {
	if ReadCompact(body, e.Body, sc) {
		return nil
	}
	*body = *new(T)
	return json.Unmarshal(e.Body, body)
}

// ReadCompact reads b into body, a pointer to a body type. If it reports false,
// body may have been partly written, and b may still be valid JSON. Metrics are
// valid until the next call with the same Scratch.
func ReadCompact(body any, b []byte, sc *Scratch) bool {
	p := compactReader{b: b, sc: sc}
	switch v := body.(type) {
	case *ChunkAccepted:
		p.chunkAccepted(v)
	case *ChunksAccepted:
		p.chunksAccepted(v)
	case *ChunksAssigned:
		p.chunksAssigned(v)
	case *HostStarted:
		p.lit(`{"version":`)
		v.Version = p.text()
		p.lit(`,"boot":`)
		v.Boot = p.num(1<<64 - 1)
		p.lit(`}`)
	default:
		return false
	}
	return !p.failed && len(p.b) == 0
}

func (p *compactReader) chunkAccepted(v *ChunkAccepted) {
	p.lit(`{"job":`)
	v.Job = job.ID(p.text())
	p.lit(`,"chunk":`)
	v.Chunk = p.int()
	p.lit(`,"attempt":`)
	v.Attempt = p.int()
	p.lit(`,"worker":`)
	v.Worker = cluster.NodeID(p.text())
	p.lit(`,"result":`)
	v.Result = p.result(p.sc.room(0))
	p.lit(`,"seconds":`)
	v.Seconds = p.float()
	p.settles(&v.Settles)
	p.lit(`}`)
}

func (p *compactReader) settles(v *bool) {
	if p.next(`,"settles":`) {
		p.lit(`true`)
		*v = true
	}
}

// result reads a result into an empty map.
func (p *compactReader) result(metrics map[string]job.Metric) (r job.ChunkResult) {
	p.lit(`{"iterations":`)
	r.Iterations = p.num(1<<64 - 1)
	p.lit(`,"metrics":{`)
	r.Metrics = metrics
	for more := !p.next(`}`); more && !p.failed; more = !p.next(`}`) {
		if len(metrics) > 0 {
			p.lit(`,`)
		}
		name := p.text()
		if _, twice := metrics[name]; twice {
			p.failed = true
		}
		metrics[name] = p.metric()
	}
	p.lit(`}`)
	return r
}

func (p *compactReader) chunksAccepted(v *ChunksAccepted) {
	p.lit(`{"job":`)
	v.Job = job.ID(p.text())
	p.lit(`,"accepts":[`)
	v.Accepts = make([]Accept, 0, len(p.b)/96) // the length of one, at least
	for more := !p.next(`]`); more && !p.failed; more = !p.next(`]`) {
		if len(v.Accepts) > 0 {
			p.lit(`,`)
		}
		var a Accept
		p.lit(`{"chunk":`)
		a.Chunk = p.int()
		p.lit(`,"attempt":`)
		a.Attempt = p.int()
		p.lit(`,"worker":`)
		a.Worker = cluster.NodeID(p.text())
		p.lit(`,"seconds":`)
		a.Seconds = p.float()
		p.settles(&a.Settles)
		p.lit(`,"result":`)
		a.Result = p.result(p.sc.room(len(v.Accepts)))
		p.lit(`}`)
		v.Accepts = append(v.Accepts, a)
	}
	p.lit(`}`)
}

func (p *compactReader) metric() (m job.Metric) {
	p.lit(`:{"n":`)
	m.N = p.num(1<<64 - 1)
	p.lit(`,"mean":`)
	m.Mean = p.float()
	p.lit(`,"m2":`)
	m.M2 = p.float()
	p.lit(`,"min":`)
	m.Min = p.float()
	p.lit(`,"max":`)
	m.Max = p.float()
	p.lit(`}`)
	return m
}

func (p *compactReader) chunksAssigned(v *ChunksAssigned) {
	p.lit(`{"job":`)
	v.Job = job.ID(p.text())
	p.lit(`,"assignments":[`)
	v.Assignments = make([]job.Attempt, 0, len(p.b)/48) // the length of one, at least
	for more := !p.next(`]`); more && !p.failed; more = !p.next(`]`) {
		if len(v.Assignments) > 0 {
			p.lit(`,`)
		}
		var a job.Attempt
		p.lit(`{"chunk":`)
		a.Chunk = p.int()
		p.lit(`,"attempt":`)
		a.Number = p.int()
		p.lit(`,"worker":`)
		a.Worker = cluster.NodeID(p.text())
		p.lit(`}`)
		v.Assignments = append(v.Assignments, a)
	}
	p.lit(`}`)
}

// compactReader takes values from the front of b. The first that is not as
// expected marks the reading as failed, and what is read after it means nothing.
type compactReader struct {
	b      []byte
	failed bool
	sc     *Scratch
}

// Scratch is memory that ReadCompact uses again from call to call. It belongs to
// one reader at a time and means nothing.
type Scratch struct {
	metrics []map[string]job.Metric // at most maxRooms
	names   map[string]string       // short texts seen, at most maxNames
}

const (
	maxNames   = 4096
	maxNameLen = 64
	maxRooms   = 1024
	maxKept    = 64 // metrics of a result whose room is used again
)

// NewScratch returns empty room for the bodies of one reader.
func NewScratch() *Scratch { return &Scratch{names: make(map[string]string)} }

// room is an empty map for the i-th result of a body.
func (sc *Scratch) room(i int) map[string]job.Metric {
	if i < len(sc.metrics) && len(sc.metrics[i]) <= maxKept {
		clear(sc.metrics[i])
		return sc.metrics[i]
	}
	m := make(map[string]job.Metric)
	if i < len(sc.metrics) {
		sc.metrics[i] = m
		return m
	}
	if i < maxRooms {
		sc.metrics = append(sc.metrics, m)
	}
	return m
}

// text is b as a string, the same one each time if it is short: jobs, workers
// and metrics come again and again.
func (sc *Scratch) text(b []byte) string {
	if len(b) > maxNameLen {
		return string(b)
	}
	if s, ok := sc.names[string(b)]; ok {
		return s
	}
	if len(sc.names) >= maxNames {
		clear(sc.names)
	}
	s := string(b)
	sc.names[s] = s
	return s
}

func (p *compactReader) lit(s string) {
	if !p.next(s) {
		p.failed = true
	}
}

// next takes s if it comes next.
func (p *compactReader) next(s string) bool {
	if len(p.b) < len(s) || string(p.b[:len(s)]) != s {
		return false
	}
	p.b = p.b[len(s):]
	return true
}

// text takes a string of printable ASCII without escapes.
func (p *compactReader) text() string {
	if !p.next(`"`) {
		p.failed = true
		return ""
	}
	for i, c := range p.b {
		switch {
		case c == '"':
			s := p.sc.text(p.b[:i])
			p.b = p.b[i+1:]
			return s
		case c < ' ' || c > '~' || c == '\\':
			p.failed = true
			return ""
		}
	}
	p.failed = true
	return ""
}

// num takes an integer from 0 to most.
func (p *compactReader) num(most uint64) uint64 {
	var n uint64
	i := 0
	for ; i < len(p.b) && p.b[i] >= '0' && p.b[i] <= '9'; i++ {
		n = 10*n + uint64(p.b[i]-'0')
	}
	// 19 digits cannot overflow.
	if i == 0 || i > 19 || i > 1 && p.b[0] == '0' || n > most {
		p.failed = true
	}
	p.b = p.b[i:]
	return n
}

func (p *compactReader) int() int { return int(p.num(1<<31 - 1)) }

// float takes a number as JSON has it.
func (p *compactReader) float() float64 {
	n := numberLen(p.b)
	if n == 0 {
		p.failed = true
		return 0
	}
	if n == 1 {
		f := float64(p.b[0] - '0')
		p.b = p.b[1:]
		return f
	}
	f, err := strconv.ParseFloat(string(p.b[:n]), 64)
	if err != nil {
		p.failed = true
	}
	p.b = p.b[n:]
	return f
}

// numberLen is the length of the JSON number that b begins with, 0 if there is
// none.
func numberLen(b []byte) int {
	i := 0
	digits := func() bool {
		from := i
		for i < len(b) && b[i] >= '0' && b[i] <= '9' {
			i++
		}
		return i > from
	}
	at := func(c byte) bool {
		if i < len(b) && b[i] == c {
			i++
			return true
		}
		return false
	}
	at('-')
	if !at('0') && !digits() {
		return 0
	}
	if at('.') && !digits() {
		return 0
	}
	if at('e') || at('E') {
		if !at('+') {
			at('-')
		}
		if !digits() {
			return 0
		}
	}
	return i
}
