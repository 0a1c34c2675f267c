package state

import (
	"strconv"

	"github.com/skein-project/skein/cluster"
)

// Nearly all events of a busy log are of the kinds below, and nearly all bodies
// are as this version's encoder writes them: these are read several times
// faster than JSON in general. Whatever looks otherwise in the least is left to
// the general decoder, which means the same.

// usual reads b into body, a pointer to a body type. If it reports false, body
// may have been written to and b may still be valid. Metrics are valid until the
// next call with the same scratch.
func usual(body any, b []byte, sc *scratch) bool {
	p := usualBody{b: b, sc: sc}
	switch v := body.(type) {
	case *cluster.ChunkAccepted:
		p.chunkAccepted(v)
	case *cluster.ChunksAccepted:
		p.chunksAccepted(v)
	case *cluster.ChunksAssigned:
		p.chunksAssigned(v)
	case *cluster.HostStarted:
		p.lit(`{"version":`)
		v.Version = p.text()
		p.lit(`,"boot":`)
		v.Boot = p.num(1<<64 - 1)
		p.lit(`}`)
	default:
		return false
	}
	return !p.odd && len(p.b) == 0
}

func (p *usualBody) chunkAccepted(v *cluster.ChunkAccepted) {
	p.lit(`{"job":`)
	v.Job = cluster.JobID(p.text())
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

func (p *usualBody) settles(v *bool) {
	if p.next(`,"settles":`) {
		p.lit(`true`)
		*v = true
	}
}

// result reads a result into an empty map.
func (p *usualBody) result(metrics map[string]cluster.Metric) (r cluster.ChunkResult) {
	p.lit(`{"iterations":`)
	r.Iterations = p.num(1<<64 - 1)
	p.lit(`,"metrics":{`)
	r.Metrics = metrics
	for more := !p.next(`}`); more && !p.odd; more = !p.next(`}`) {
		if len(metrics) > 0 {
			p.lit(`,`)
		}
		name := p.text()
		if _, twice := metrics[name]; twice {
			p.odd = true
		}
		metrics[name] = p.metric()
	}
	p.lit(`}`)
	return r
}

func (p *usualBody) chunksAccepted(v *cluster.ChunksAccepted) {
	p.lit(`{"job":`)
	v.Job = cluster.JobID(p.text())
	p.lit(`,"accepts":[`)
	v.Accepts = make([]cluster.Accept, 0, len(p.b)/96) // the length of one, at least
	for more := !p.next(`]`); more && !p.odd; more = !p.next(`]`) {
		if len(v.Accepts) > 0 {
			p.lit(`,`)
		}
		var a cluster.Accept
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

func (p *usualBody) metric() (m cluster.Metric) {
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

func (p *usualBody) chunksAssigned(v *cluster.ChunksAssigned) {
	p.lit(`{"job":`)
	v.Job = cluster.JobID(p.text())
	p.lit(`,"assignments":[`)
	v.Assignments = make([]cluster.Assignment, 0, len(p.b)/48) // the length of one, at least
	for more := !p.next(`]`); more && !p.odd; more = !p.next(`]`) {
		if len(v.Assignments) > 0 {
			p.lit(`,`)
		}
		var a cluster.Assignment
		p.lit(`{"chunk":`)
		a.Chunk = p.int()
		p.lit(`,"attempt":`)
		a.Attempt = p.int()
		p.lit(`,"worker":`)
		a.Worker = cluster.NodeID(p.text())
		p.lit(`}`)
		v.Assignments = append(v.Assignments, a)
	}
	p.lit(`}`)
}

// usualBody takes values from the front of b. The first one that is not as
// expected makes it odd, and the rest is without meaning.
type usualBody struct {
	b   []byte
	odd bool
	sc  *scratch
}

// scratch is what decoding uses again and again. It belongs to one State and is
// no part of its meaning.
type scratch struct {
	metrics []map[string]cluster.Metric // at most maxRooms
	names   map[string]string           // short texts seen, at most maxNames
}

const (
	maxNames   = 4096
	maxNameLen = 64
	maxRooms   = 1024
	maxKept    = 64 // metrics of a result whose room is used again
)

func newScratch() *scratch { return &scratch{names: make(map[string]string)} }

// room is an empty map for the i-th result of a body.
func (sc *scratch) room(i int) map[string]cluster.Metric {
	if i < len(sc.metrics) && len(sc.metrics[i]) <= maxKept {
		clear(sc.metrics[i])
		return sc.metrics[i]
	}
	m := make(map[string]cluster.Metric)
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
func (sc *scratch) text(b []byte) string {
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

func (p *usualBody) lit(s string) {
	if !p.next(s) {
		p.odd = true
	}
}

// next takes s if it comes next.
func (p *usualBody) next(s string) bool {
	if len(p.b) < len(s) || string(p.b[:len(s)]) != s {
		return false
	}
	p.b = p.b[len(s):]
	return true
}

// text takes a string of printable ASCII without escapes.
func (p *usualBody) text() string {
	if !p.next(`"`) {
		p.odd = true
		return ""
	}
	for i, c := range p.b {
		switch {
		case c == '"':
			s := p.sc.text(p.b[:i])
			p.b = p.b[i+1:]
			return s
		case c < ' ' || c > '~' || c == '\\':
			p.odd = true
			return ""
		}
	}
	p.odd = true
	return ""
}

// num takes an integer from 0 to most.
func (p *usualBody) num(most uint64) uint64 {
	var n uint64
	i := 0
	for ; i < len(p.b) && p.b[i] >= '0' && p.b[i] <= '9'; i++ {
		n = 10*n + uint64(p.b[i]-'0')
	}
	// 19 digits cannot overflow.
	if i == 0 || i > 19 || i > 1 && p.b[0] == '0' || n > most {
		p.odd = true
	}
	p.b = p.b[i:]
	return n
}

func (p *usualBody) int() int { return int(p.num(1<<31 - 1)) }

// float takes a number as JSON has it.
func (p *usualBody) float() float64 {
	n := numberLen(p.b)
	if n == 0 {
		p.odd = true
		return 0
	}
	if n == 1 {
		f := float64(p.b[0] - '0')
		p.b = p.b[1:]
		return f
	}
	f, err := strconv.ParseFloat(string(p.b[:n]), 64)
	if err != nil {
		p.odd = true
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
