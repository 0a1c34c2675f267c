package event

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/skein-project/skein/cluster/job"
)

// AppendBody appends the JSON form of an event's body to dst, the same bytes as
// those of json.Marshal. The bodies that a running job logs are written without
// reflection, which takes a third of the time.
func AppendBody(dst []byte, body any) ([]byte, error) {
	w := bodyWriter{b: dst}
	switch v := body.(type) {
	case ChunksAccepted:
		w.b = slices.Grow(dst, 64+256*len(v.Accepts))
		w.chunksAccepted(&v)
	case ChunksAssigned:
		w.b = slices.Grow(dst, 64+64*len(v.Assignments))
		w.chunksAssigned(&v)
	case ChunkAccepted:
		w.b = slices.Grow(dst, 384)
		w.chunkAccepted(&v)
	default:
		w.odd = true
	}
	if w.odd {
		b, err := json.Marshal(body)
		return append(dst, b...), err
	}
	return w.b, nil
}

// bodyWriter appends JSON to b. The first value that json.Marshal would escape,
// or refuse, makes it odd, and b is without meaning.
type bodyWriter struct {
	b   []byte
	odd bool
}

func (w *bodyWriter) chunksAccepted(v *ChunksAccepted) {
	w.lit(`{"job":`).text(string(v.Job))
	w.lit(`,"accepts":`)
	list(w, v.Accepts, func(a *Accept) {
		w.lit(`{"chunk":`).int(a.Chunk)
		w.lit(`,"attempt":`).int(a.Attempt)
		w.lit(`,"worker":`).text(string(a.Worker))
		w.lit(`,"seconds":`).float(a.Seconds)
		w.settles(a.Settles)
		w.lit(`,"result":`).result(&a.Result)
		w.lit(`}`)
	})
	w.lit(`}`)
}

func (w *bodyWriter) chunksAssigned(v *ChunksAssigned) {
	w.lit(`{"job":`).text(string(v.Job))
	w.lit(`,"assignments":`)
	list(w, v.Assignments, func(a *job.Attempt) {
		w.lit(`{`)
		if a.Job != "" {
			w.lit(`"job":`).text(string(a.Job))
			w.lit(`,`)
		}
		w.lit(`"chunk":`).int(a.Chunk)
		w.lit(`,"attempt":`).int(a.Number)
		if a.Worker != "" {
			w.lit(`,"worker":`).text(string(a.Worker))
		}
		w.lit(`}`)
	})
	w.lit(`}`)
}

func (w *bodyWriter) chunkAccepted(v *ChunkAccepted) {
	w.lit(`{"job":`).text(string(v.Job))
	w.lit(`,"chunk":`).int(v.Chunk)
	w.lit(`,"attempt":`).int(v.Attempt)
	w.lit(`,"worker":`).text(string(v.Worker))
	w.lit(`,"result":`).result(&v.Result)
	w.lit(`,"seconds":`).float(v.Seconds)
	w.settles(v.Settles)
	w.lit(`}`)
}

func (w *bodyWriter) settles(is bool) {
	if is {
		w.lit(`,"settles":true`)
	}
}

func (w *bodyWriter) result(r *job.ChunkResult) {
	w.lit(`{"iterations":`).num(r.Iterations)
	w.lit(`,"metrics":`)
	if r.Metrics == nil {
		w.lit(`null}`)
		return
	}
	var room [8]string
	names := room[:0]
	for name := range r.Metrics {
		names = append(names, name)
	}
	slices.Sort(names)
	sep := `{`
	for _, name := range names {
		m := r.Metrics[name]
		w.lit(sep).text(name)
		w.lit(`:{"n":`).num(m.N)
		w.lit(`,"mean":`).float(m.Mean)
		w.lit(`,"m2":`).float(m.M2)
		w.lit(`,"min":`).float(m.Min)
		w.lit(`,"max":`).float(m.Max)
		if m.Sketch != nil {
			w.lit(`,"sketch":`).any(m.Sketch)
		}
		w.lit(`}`)
		sep = `,`
	}
	if len(names) == 0 {
		w.lit(sep)
	}
	w.lit(`}}`)
}

func list[T any](w *bodyWriter, items []T, one func(*T)) {
	if items == nil {
		w.lit(`null`)
		return
	}
	w.lit(`[`)
	for i := range items {
		if i > 0 {
			w.lit(`,`)
		}
		one(&items[i])
	}
	w.lit(`]`)
}

func (w *bodyWriter) lit(s string) *bodyWriter {
	w.b = append(w.b, s...)
	return w
}

// plain are the bytes of a string that encoding/json leaves as they are: the
// printable ones of ASCII without those that it escapes.
var plain = func() (is [256]bool) {
	for c := byte(' '); c <= '~'; c++ {
		is[c] = !strings.ContainsRune(`"\<>&`, rune(c))
	}
	return is
}()

// text takes what is plain.
func (w *bodyWriter) text(s string) {
	for i := range len(s) {
		if !plain[s[i]] {
			w.odd = true
			return
		}
	}
	w.b = append(append(append(w.b, '"'), s...), '"')
}

func (w *bodyWriter) num(n uint64) { w.b = strconv.AppendUint(w.b, n, 10) }

func (w *bodyWriter) int(n int) { w.b = strconv.AppendInt(w.b, int64(n), 10) }

// float is as ECMAScript has it, see RFC 8785, section 3.2.2.3.
func (w *bodyWriter) float(f float64) {
	size := math.Abs(f)
	switch {
	case !(size <= math.MaxFloat64): // not a number, or infinite
		w.odd = true
	case size == 0 || size >= 1e-6 && size < 1e21:
		w.b = strconv.AppendFloat(w.b, f, 'f', -1, 64)
	default:
		w.b = strconv.AppendFloat(w.b, f, 'e', -1, 64)
		if n := len(w.b); w.b[n-4] == 'e' && w.b[n-3] == '-' && w.b[n-2] == '0' {
			w.b = append(w.b[:n-2], w.b[n-1]) // e-09 is e-9
		}
	}
}

func (w *bodyWriter) any(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		w.odd = true
		return
	}
	w.b = append(w.b, b...)
}
