package eventlog

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster"
)

// Cursor is a position in the whole log: per source the seq of the last event
// that was seen. The zero value is the beginning.
type Cursor map[cluster.SourceID]uint64

// maxCursor bounds the text of a cursor.
const maxCursor = 1 << 20

func (c Cursor) clone() Cursor {
	out := make(Cursor, len(c))
	maps.Copy(out, c)
	return out
}

// Position returns the durable end of the whole log.
func (l *Log) Position() Cursor {
	c := Cursor{}
	for _, h := range l.Heads() {
		c[h.Source] = h.Seq
	}
	return c
}

// String returns c as text without blanks, safe in a URL. It means the same
// on every host.
func (c Cursor) String() string {
	b := []byte{1}
	for _, s := range slices.SortedFunc(maps.Keys(c), cluster.SourceID.Compare) {
		b = append(b, byte(len(s.Node)))
		b = append(b, s.Node...)
		b = binary.AppendUvarint(b, s.Inc)
		b = binary.AppendUvarint(b, c[s])
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseCursor reads the text of a cursor; the empty text is the beginning.
// Errors wrap ErrCursor.
func ParseCursor(s string) (Cursor, error) {
	c := Cursor{}
	if s == "" {
		return c, nil
	}
	if len(s) > maxCursor {
		return nil, fmt.Errorf("%w: %d characters", ErrCursor, len(s))
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCursor, err)
	}
	if len(b) == 0 || b[0] != 1 {
		return nil, fmt.Errorf("%w: unknown version", ErrCursor)
	}
	for b = b[1:]; len(b) > 0; {
		n := int(b[0])
		if len(b) < 1+n {
			return nil, fmt.Errorf("%w: cut short", ErrCursor)
		}
		node, err := cluster.ParseNodeID(string(b[1 : 1+n]))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCursor, err)
		}
		b = b[1+n:]
		var v [2]uint64
		for i := range v {
			x, n := binary.Uvarint(b)
			if n <= 0 {
				return nil, fmt.Errorf("%w: cut short", ErrCursor)
			}
			v[i], b = x, b[n:]
		}
		c[cluster.SourceID{Node: node, Inc: v[0]}] = v[1]
	}
	return c, nil
}
