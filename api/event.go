package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Event is each line of GET /v1/events.
type Event struct {
	Header
	Source cluster.SourceID `json:"source"`
	Seq    uint64           `json:"seq"`
	Time   time.Time        `json:"time"` // of the writer's clock
	HLC    cluster.HLC      `json:"hlc"`
	Term   cluster.Term     `json:"term"` // 0: written without authority
	Kind   cluster.Kind     `json:"kind"`
	Body   json.RawMessage  `json:"body"`
	Hash   cluster.Hash     `json:"hash"`
}

// EventQuery selects events. The zero value selects all that are known.
type EventQuery struct {
	Since  time.Time      // zero: from the beginning
	Kind   string         // exact, or a pattern with '*'
	Node   cluster.NodeID // of the source; empty: all
	Follow bool           // go on with what comes
	After  Cursor         // per source: only later events
}

// Cursor is how far a reader has read each source. It stays valid across
// restarts and on other hosts.
type Cursor map[cluster.SourceID]uint64

// maxCursor bounds the sources in a parsed cursor.
const maxCursor = 4096

// String returns "node/inc:seq,...", sorted.
func (c Cursor) String() string {
	parts := make([]string, 0, len(c))
	for s, seq := range c {
		parts = append(parts, s.String()+":"+strconv.FormatUint(seq, 10))
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

// ParseCursor reads the form of Cursor.String.
func ParseCursor(text string) (Cursor, error) {
	c := Cursor{}
	if text == "" {
		return c, nil
	}
	for i, part := range strings.Split(text, ",") {
		node, rest, ok1 := strings.Cut(part, "/")
		inc, seq, ok2 := strings.Cut(rest, ":")
		id, err := cluster.ParseNodeID(node)
		n, err1 := strconv.ParseUint(inc, 10, 64)
		m, err2 := strconv.ParseUint(seq, 10, 64)
		if !ok1 || !ok2 || err != nil || err1 != nil || err2 != nil || i >= maxCursor {
			return nil, fmt.Errorf("cursor: entry %d is not node/incarnation:sequence", i+1)
		}
		c[cluster.SourceID{Node: id, Inc: n}] = m
	}
	return c, nil
}

// Advance notes that e was read.
func (c Cursor) Advance(e Event) {
	if e.Seq > c[e.Source] {
		c[e.Source] = e.Seq
	}
}

// LogVerify is the result of checking an event log from end to end.
type LogVerify struct {
	OK      bool   `json:"ok"`
	Problem string `json:"problem,omitempty"` // segment, offset and record
	Hint    string `json:"hint,omitempty"`    // what to do about it
	Events  uint64 `json:"events"`
	// SizeBytes counts all segments.
	SizeBytes uint64 `json:"size_bytes"`
	Segments  int    `json:"segments"`
	// TornBytes is what an unclean stop left at the end; it was never
	// acknowledged.
	TornBytes uint64       `json:"torn_bytes"`
	StateHash cluster.Hash `json:"state_hash"`
	Sources   []LogSource  `json:"sources"` // sorted by source
}

// LogSource is the end of one chain.
type LogSource struct {
	Source cluster.SourceID `json:"source"`
	Seq    uint64           `json:"seq"`
	Hash   cluster.Hash     `json:"hash"`
}
