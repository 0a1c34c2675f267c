package store

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/internal/durable"
)

// Seen is what a daemon knew of the other voters when it stopped. Who gives them up
// for lost is told that first; nothing else depends on it.
type Seen struct {
	Stopped time.Time `json:"stopped"`
	// Heard is when each was last heard, zero: never.
	Heard map[cluster.NodeID]time.Time `json:"heard"`
}

// seenOnDisk is the file.
type seenOnDisk struct {
	Cluster member.ClusterID `json:"cluster"`
	Node    cluster.NodeID   `json:"node"`
	Seen    Seen             `json:"seen"`
}

// LoadSeen returns what SaveSeen kept; false if there is nothing that can be relied
// on: no file, a damaged one, or another host's.
func (s *File) LoadSeen() (Seen, bool) {
	var d seenOnDisk
	if _, err := durable.Seen.ReadJSON(s.dir, &d); err != nil || d.Cluster != s.cluster || d.Node != s.self {
		return Seen{}, false
	}
	return d.Seen, true
}

// DropSeen removes what SaveSeen kept: a daemon runs, and may end without a word.
func (s *File) DropSeen() { _ = os.Remove(durable.Seen.Path(s.dir)) } // an old one that stays says when it is from

// SaveSeen replaces what LoadSeen returns.
func (s *File) SaveSeen(seen Seen) error {
	if err := durable.Seen.WriteJSON(s.dir, seenOnDisk{Cluster: s.cluster, Node: s.self, Seen: seen}); err != nil {
		return fmt.Errorf("save who was seen: %w", err)
	}
	return nil
}

// After completes what a daemon saw by what the one before it knew: a host that did
// not speak since the start was last heard before.
func (s Seen) After(former Seen) Seen {
	out := Seen{Stopped: s.Stopped, Heard: map[cluster.NodeID]time.Time{}}
	for node, at := range s.Heard {
		out.Heard[node] = slices.MaxFunc([]time.Time{at, former.Heard[node]}, time.Time.Compare)
	}
	return out
}
