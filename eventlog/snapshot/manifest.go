package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// MaxManifest bounds the text of a manifest.
const MaxManifest = 256 << 20

// Manifest says what is no longer here: per chain the position up to which
// events were dropped, and of every segment that was dropped what it takes to
// recognise it again.
type Manifest struct {
	Cluster string `json:"cluster"`
	// Bases are sorted by source; the first event kept follows them.
	Bases event.Cut `json:"bases"`
	// Segments are in the order in which they were dropped.
	Segments []Dropped `json:"segments,omitempty"`
}

// Dropped is a segment that is no longer in the log.
type Dropped struct {
	Source   event.SourceID `json:"source"`
	First    uint64         `json:"first"`
	Last     uint64         `json:"last"`
	Prev     cluster.Hash   `json:"prev"`   // hash before the first event
	Hash     cluster.Hash   `json:"hash"`   // of the last event
	Size     int64          `json:"size"`   // of the file
	Sum      cluster.Hash   `json:"sha256"` // of the file
	Snapshot cluster.Hash   `json:"snapshot"`
	Archived string         `json:"archived,omitempty"` // where the file went
}

// Encode returns the text of m: a line with its checksum, then JSON.
func (m *Manifest) Encode() ([]byte, error) {
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	sum := crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli))
	return append(fmt.Appendf(nil, "skein-manifest/1 %08x\n", sum), text...), nil
}

// DecodeManifest reads what Encode wrote.
func DecodeManifest(clusterID string, b []byte) (*Manifest, error) {
	if len(b) > MaxManifest {
		return nil, invalid("manifest of %d bytes", len(b))
	}
	line, text, _ := bytes.Cut(b, []byte("\n"))
	if want := fmt.Sprintf("skein-manifest/1 %08x", crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli))); string(line) != want {
		return nil, invalid("manifest begins %.40q, its contents need %q", line, want)
	}
	m := &Manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, invalid("manifest: %v", err)
	}
	if m.Cluster != clusterID {
		return nil, invalid("manifest of cluster %q, this is %q", m.Cluster, clusterID)
	}
	return m, m.validate()
}

func (m *Manifest) validate() error {
	if len(m.Bases) > MaxSources {
		return invalid("manifest of %d sources", len(m.Bases))
	}
	for i, b := range m.Bases {
		if _, err := cluster.ParseNodeID(string(b.Source.Node)); err != nil || b.Source.Inc == 0 || b.Seq == 0 {
			return invalid("manifest: base of %s at seq %d", b.Source, b.Seq)
		}
		if i > 0 && m.Bases[i-1].Source.Compare(b.Source) >= 0 {
			return invalid("manifest not sorted at %s", b.Source)
		}
	}
	last := map[event.SourceID]event.Mark{}
	for _, d := range m.Segments {
		p := last[d.Source]
		if d.First == 0 || d.Last < d.First || d.First <= p.Seq {
			return invalid("manifest: segment of %s from %d to %d after %d", d.Source, d.First, d.Last, p.Seq)
		}
		if d.First == p.Seq+1 && d.Prev != p.Hash {
			return invalid("manifest: segment of %s at seq %d does not follow the one before", d.Source, d.First)
		}
		if base := m.Base(d.Source); d.Last > base.Seq || d.Last == base.Seq && d.Hash != base.Hash {
			return invalid("manifest: segment of %s up to %d, base %d", d.Source, d.Last, base.Seq)
		}
		last[d.Source] = event.Mark{Seq: d.Last, Hash: d.Hash}
	}
	return nil
}

// Base returns up to where the events of src were dropped.
func (m *Manifest) Base(src event.SourceID) event.Mark {
	for _, b := range m.Bases {
		if b.Source == src {
			return b.Mark
		}
	}
	return event.Mark{}
}

// With returns a copy of m in which src begins after base, and with dropped
// segments added.
func (m *Manifest) With(bases map[event.SourceID]event.Mark, dropped []Dropped) *Manifest {
	all := map[event.SourceID]event.Mark{}
	for _, b := range m.Bases {
		all[b.Source] = b.Mark
	}
	for src, b := range bases {
		if b.Seq > all[src].Seq {
			all[src] = b
		}
	}
	next := &Manifest{Cluster: m.Cluster, Segments: append(slices.Clip(m.Segments), dropped...)}
	for _, src := range sortedSources(all) {
		next.Bases = append(next.Bases, event.SourceMark{Source: src, Mark: all[src]})
	}
	return next
}

func sortedSources(m map[event.SourceID]event.Mark) []event.SourceID {
	return slices.SortedFunc(maps.Keys(m), event.SourceID.Compare)
}
