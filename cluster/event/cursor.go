package event

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/skein-project/skein/cluster"
)

// Cursor is a position in the whole log: per source the seq of the last event
// that was seen. The zero value is the beginning. It means the same on every
// host, and stays valid across restarts.
type Cursor map[SourceID]uint64

// MaxCursorSources bounds the sources in a parsed cursor.
const MaxCursorSources = 4096

// ErrCursor reports a text that is not a cursor.
var ErrCursor = errors.New("invalid cursor")

// Clone returns a copy, never nil.
func (c Cursor) Clone() Cursor {
	out := make(Cursor, len(c))
	maps.Copy(out, c)
	return out
}

// Advance notes that seq of s, and what stands before it, was seen.
func (c Cursor) Advance(s SourceID, seq uint64) {
	if seq > c[s] {
		c[s] = seq
	}
}

// Sources returns the sources in order.
func (c Cursor) Sources() []SourceID { return slices.SortedFunc(maps.Keys(c), SourceID.Compare) }

// String returns "node/inc:seq,node/inc:seq", sorted by source.
func (c Cursor) String() string {
	var b []byte
	for i, s := range c.Sources() {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, s.Node...)
		b = strconv.AppendUint(append(b, '/'), s.Inc, 10)
		b = strconv.AppendUint(append(b, ':'), c[s], 10)
	}
	return string(b)
}

// ParseCursor reads the form of Cursor.String, in any order; the empty text is
// the beginning. Errors wrap ErrCursor.
func ParseCursor(text string) (Cursor, error) {
	c := Cursor{}
	if text == "" {
		return c, nil
	}
	i := 0
	for part := range strings.SplitSeq(text, ",") {
		i++
		node, rest, ok1 := strings.Cut(part, "/")
		inc, seq, ok2 := strings.Cut(rest, ":")
		id, err := cluster.ParseNodeID(node)
		n, err1 := strconv.ParseUint(inc, 10, 64)
		m, err2 := strconv.ParseUint(seq, 10, 64)
		s := SourceID{Node: id, Inc: n}
		_, twice := c[s]
		switch {
		case !ok1 || !ok2 || err != nil || err1 != nil || err2 != nil || n == 0:
			return nil, fmt.Errorf("%w: entry %d is not node/incarnation:sequence", ErrCursor, i)
		case twice:
			return nil, fmt.Errorf("%w: %s stands in it twice", ErrCursor, s)
		case i > MaxCursorSources:
			return nil, fmt.Errorf("%w: more than %d sources", ErrCursor, MaxCursorSources)
		}
		c[s] = m
	}
	return c, nil
}

// Cursor returns the positions of c without their hashes.
func (c Cut) Cursor() Cursor {
	out := make(Cursor, len(c))
	for _, m := range c {
		out[m.Source] = m.Seq
	}
	return out
}
