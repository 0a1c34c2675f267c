package jsonbytes

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// Writer appends JSON to B. The first value that json.Marshal would escape, or refuse,
// sets Fallback: B is then meaningless, and the caller marshals the value as usual.
type Writer struct {
	B        []byte
	Fallback bool
}

// List appends items, each as one does.
func List[T any](w *Writer, items []T, one func(*T)) {
	if items == nil {
		w.Lit(`null`)
		return
	}
	w.Lit(`[`)
	for i := range items {
		if i > 0 {
			w.Lit(`,`)
		}
		one(&items[i])
	}
	w.Lit(`]`)
}

// Lit appends s as it is.
func (w *Writer) Lit(s string) *Writer {
	w.B = append(w.B, s...)
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

// Text takes what is plain.
func (w *Writer) Text(s string) {
	for i := range len(s) {
		if !plain[s[i]] {
			w.Fallback = true
			return
		}
	}
	w.B = append(append(append(w.B, '"'), s...), '"')
}

// Num appends a number.
func (w *Writer) Num(n uint64) { w.B = strconv.AppendUint(w.B, n, 10) }

// Int appends a number.
func (w *Writer) Int(n int) { w.B = strconv.AppendInt(w.B, int64(n), 10) }

// Float is as ECMAScript has it, see RFC 8785, section 3.2.2.3.
func (w *Writer) Float(f float64) {
	size := math.Abs(f)
	switch {
	case !(size <= math.MaxFloat64): // not a number, or infinite
		w.Fallback = true
	case size == 0 || size >= 1e-6 && size < 1e21:
		w.B = strconv.AppendFloat(w.B, f, 'f', -1, 64)
	default:
		w.B = strconv.AppendFloat(w.B, f, 'e', -1, 64)
		if n := len(w.B); w.B[n-4] == 'e' && w.B[n-3] == '-' && w.B[n-2] == '0' {
			w.B = append(w.B[:n-2], w.B[n-1]) // e-09 is e-9
		}
	}
}

// Any appends what json.Marshal makes of v.
func (w *Writer) Any(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		w.Fallback = true
		return
	}
	w.B = append(w.B, b...)
}
