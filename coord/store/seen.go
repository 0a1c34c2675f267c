package store

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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

const (
	seenFile = "seen.json"
	// maxSeenFile bounds what is read: a record of cluster.MaxVoters is below 1 KiB.
	maxSeenFile = 16 << 10
)

// seenOnDisk is the file: JSON with a checksum over what it says.
type seenOnDisk struct {
	Cluster member.ClusterID `json:"cluster"`
	Node    cluster.NodeID   `json:"node"`
	Seen    json.RawMessage  `json:"seen"`
	Sum     cluster.Hash     `json:"sha256"`
}

func (d *seenOnDisk) sum() cluster.Hash {
	return cluster.Hash(sha256.Sum256(fmt.Appendf(nil, "%s %s %s", d.Cluster, d.Node, d.Seen)))
}

// LoadSeen returns what SaveSeen kept; false if there is nothing that can be relied
// on: no file, a damaged one, or another host's.
func (s *File) LoadSeen() (Seen, bool) {
	data, err := readBounded(filepath.Join(s.dir, seenFile), maxSeenFile)
	var d seenOnDisk
	if err != nil || json.Unmarshal(data, &d) != nil || d.Sum != d.sum() || d.Cluster != s.cluster || d.Node != s.self {
		return Seen{}, false
	}
	var out Seen
	if json.Unmarshal(d.Seen, &out) != nil {
		return Seen{}, false
	}
	return out, true
}

// DropSeen removes what SaveSeen kept: a daemon runs, and may end without a word.
func (s *File) DropSeen() { _ = os.Remove(filepath.Join(s.dir, seenFile)) } // an old one that stays says when it is from

// SaveSeen replaces what LoadSeen returns.
func (s *File) SaveSeen(seen Seen) error {
	raw, err := json.Marshal(seen)
	if err != nil {
		return fmt.Errorf("save who was seen: %w", err)
	}
	d := seenOnDisk{Cluster: s.cluster, Node: s.self, Seen: raw}
	d.Sum = d.sum()
	data, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("save who was seen: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(s.dir, seenFile), data, 0o600); err != nil {
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
