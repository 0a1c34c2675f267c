package api

import (
	"encoding/json"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// Event is each line of GET /v1/events.
type Event struct {
	Header
	Source event.SourceID  `json:"source"`
	Seq    uint64          `json:"seq"`
	Time   time.Time       `json:"time"` // of the writer's clock
	HLC    cluster.HLC     `json:"hlc"`
	Term   cluster.Term    `json:"term"` // 0: written without authority
	Kind   event.Kind      `json:"kind"`
	Body   json.RawMessage `json:"body"`
	Prev   cluster.Hash    `json:"prev"` // hash of the source's event before it
	Hash   cluster.Hash    `json:"hash"`
}

// EventQuery selects events. The zero value selects all that are kept.
type EventQuery struct {
	Since  time.Time      // by the writers' clocks; zero: from the beginning
	Kind   string         // kinds or patterns with '*', separated by commas; empty: all
	Node   cluster.NodeID // of the source; empty: all
	About  event.Subject  // a job, host, worker or user; of the zero value: all
	Follow bool           // go on with what comes
	After  Cursor         // per source: only later events; empty: all
	Limit  uint64         // end after so many; 0: no limit
	// Tail begins with the last so many of those that are selected; 0: with the first.
	Tail uint64
	// Entity is what they are about: "node:n1", "job:ID", "run:ID", "term:7",
	// "actor:uid:0" or "onion:ADDRESS"; empty: anything.
	Entity string
	Until  time.Time // by the writers' clocks; zero: to the end
	Before Cursor    // only what stands before it; nil: all
}

// Cursor is how far a reader has read each source. It stays valid across
// restarts and on other hosts.
type Cursor = event.Cursor

// StreamPosition is a line of GET /v1/events with positions=true: all events
// up to Cursor that were selected stand before it.
type StreamPosition struct {
	Cursor string `json:"cursor"`
	// Compacted says, in the first line, that older events are no longer kept.
	Compacted bool `json:"compacted,omitempty"`
}
