package segment

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
)

const (
	// Suffix ends the name of a segment's file.
	Suffix = ".seg"
	// ProofDir holds the evidence of equivocations.
	ProofDir = "equivocation"
	// SnapshotDir holds the snapshots and the manifest.
	SnapshotDir = "snapshots"
)

// SourceDir is the name of the directory of a chain.
func SourceDir(s event.SourceID) string {
	return string(s.Node) + "." + strconv.FormatUint(s.Inc, 10)
}

// ParseSourceDir is the inverse of SourceDir; ok is false for other names.
func ParseSourceDir(name string) (s event.SourceID, ok bool) {
	node, inc, ok := strings.Cut(name, ".")
	if !ok {
		return s, false
	}
	id, err := cluster.ParseNodeID(node)
	if err != nil {
		return s, false
	}
	n, err := strconv.ParseUint(inc, 10, 64)
	if err != nil || n == 0 {
		return s, false
	}
	s = event.SourceID{Node: id, Inc: n}
	return s, SourceDir(s) == name
}

// Name is the name of the segment that begins with the event first.
func Name(first uint64) string { return fmt.Sprintf("%020d%s", first, Suffix) }

// ParseName is the inverse of Name; ok is false for other names.
func ParseName(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, Suffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil && n > 0
}

// SourceDirs lists the chains that have a directory under dir.
func SourceDirs(fsys disk.FS, dir string) ([]event.SourceID, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list event log: %w", err)
	}
	var out []event.SourceID
	for _, e := range entries {
		if !e.IsDir() || e.Name() == ProofDir || e.Name() == SnapshotDir {
			continue
		}
		s, ok := ParseSourceDir(e.Name())
		if !ok {
			return nil, &CorruptError{Segment: filepath.Join(dir, e.Name()), Reason: "not a source directory; the directory belongs to the event log"}
		}
		out = append(out, s)
	}
	return out, nil
}

// Files lists a source directory: the first events of the segments, in
// order. Any other name in it is an error, since the directory belongs to the
// log.
func Files(fsys disk.FS, dir string) ([]uint64, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list source directory: %w", err)
	}
	var firsts []uint64
	for _, e := range entries {
		first, ok := ParseName(e.Name())
		if !ok {
			return nil, &CorruptError{Segment: filepath.Join(dir, e.Name()), Reason: "not a segment; the directory belongs to the event log"}
		}
		firsts = append(firsts, first)
	}
	return firsts, nil
}
