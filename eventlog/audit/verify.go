package audit

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/eventlog/snapshot"
	"github.com/skein-project/skein/eventlog/snapshots"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/eventlog/wire"
)

// VerifyOptions say what to verify. All fields but FS and Self are required.
type VerifyOptions struct {
	Dir     string
	Cluster string
	// KeyOf returns the identity key of a host, nil if it is not known: its
	// heads are counted as unchecked.
	KeyOf func(cluster.NodeID) ed25519.PublicKey
	Self  cluster.NodeID // only for hints
	// Used says that a daemon ran with this log, so that it was there once.
	Used bool
	FS   disk.FS // default disk.OSFS()
	// Progress is called, if not nil, with the number of events read, after
	// every few of them. It may block to slow the reading down.
	Progress func(events uint64)
	// ChainsOnly leaves out what needs the bodies: the cuts of term starts and
	// the state.
	ChainsOnly bool
	// Limits say how many bytes of each segment, by path, are durable; nil: all
	// there are. Known are the snapshots that count; nil: all.
	Limits map[string]int64
	Known  map[cluster.Hash]bool
}

// Report is what Verify found. Two logs with the same events have the same
// StateHash.
type Report struct {
	Sources   int          `json:"sources"`
	Segments  int          `json:"segments"`
	Events    uint64       `json:"events"`
	Bytes     int64        `json:"bytes"`
	Heads     uint64       `json:"heads"`           // signatures that verify
	Unchecked uint64       `json:"heads_unchecked"` // no key known
	Cuts      uint64       `json:"cuts"`            // term starts
	CutMarks  uint64       `json:"cut_marks"`       // positions in cuts that agree
	Missing   uint64       `json:"cut_marks_missing"`
	TornBytes int64        `json:"torn_bytes"` // of writes that were never acknowledged
	StateHash cluster.Hash `json:"state_hash"`
	// Snapshots is how many snapshots are right: the newest was replayed, unless
	// events up to its cut are still to be fetched, the others were read. Signers
	// is how many voters of the newest are known and have signed it, and Dropped
	// how many events are only in a snapshot.
	Snapshots int    `json:"snapshots"`
	Signers   int    `json:"snapshot_signers"`
	Dropped   uint64 `json:"events_dropped"`
	// Forks are the sources that are proven to have signed two histories. Two
	// hosts may hold different events of them from there on; these do not count.
	Forks []wire.Fork `json:"forks,omitempty"`
	// Ends are the last positions of the chains, by source.
	Ends event.Cut `json:"ends"`
}

// progressStep is how many events lie between two calls of Progress.
const progressStep = 4096

// verifier walks all chains of a log.
type verifier struct {
	durable map[event.SourceID]uint64 // what the watermark says of each chain
	o       VerifyOptions
	report  Report
	shown   uint64 // events at the last Progress
	marks   map[event.SourceID]map[uint64]cluster.Hash
	forks   map[event.SourceID]uint64

	past  past
	after *event.SnapshotTaken   // a later walk begins here; nil: at the beginning
	ends  map[string]event.Mark  // by segment, from the first walk
	clock map[string]cluster.HLC // likewise
	stale bool                   // the fold waits for Refold
}

// Verify reads the whole log in o.Dir, which another process may have open,
// and checks framing, checksums, hash chains, head signatures and the cuts of
// term starts. It changes nothing. A *segment.CorruptError names the first thing that
// is wrong; the report covers what was read until then.
func Verify(ctx context.Context, o VerifyOptions) (Report, error) {
	for try := 1; ; try++ {
		before := droppedIn(o)
		r, err := verify(ctx, o)
		if err == nil || ctx.Err() != nil || try == verifyTries || droppedIn(o) == before {
			return r, err
		}
		// The process that has it open dropped segments meanwhile.
	}
}

// verifyTries bounds how often a log is read again of which segments vanish.
const verifyTries = 3

// droppedIn counts the segments and positions that the manifest says are
// dropped, -1 if that cannot be determined.
func droppedIn(o VerifyOptions) int {
	if o.FS == nil {
		o.FS = disk.OSFS()
	}
	m, err := snapshots.Files{FS: o.FS, Dir: o.Dir, Cluster: o.Cluster}.Manifest()
	if err != nil {
		return -1
	}
	return len(m.Segments) + len(m.Bases)
}

func verify(ctx context.Context, o VerifyOptions) (Report, error) {
	if o.Dir == "" || o.Cluster == "" || o.KeyOf == nil {
		return Report{}, errors.New("verify event log: directory, cluster id and keys are required")
	}
	if o.FS == nil {
		o.FS = disk.OSFS()
	}
	if o.Used {
		if err := Lost(o.Dir); err != nil {
			return Report{}, err
		}
	}
	v := &verifier{
		o: o, marks: map[event.SourceID]map[uint64]cluster.Hash{}, forks: map[event.SourceID]uint64{},
		ends: map[string]event.Mark{}, clock: map[string]cluster.HLC{},
	}
	if o.Limits == nil { // of a running log everything durable is within them
		heads, err := store.LoadMarks(o.Dir)
		if err != nil {
			return v.report, fmt.Errorf("verify event log: %w", err)
		}
		v.durable = map[event.SourceID]uint64{}
		for _, h := range heads {
			v.durable[h.Source] = h.Seq
		}
	}
	st, err := v.all(ctx)
	if err != nil {
		return v.report, fmt.Errorf("verify event log: %w", err)
	}
	if !o.ChainsOnly {
		v.report.StateHash = st.Hash()
	}
	return v.report, nil
}

// all reads everything and returns the state.
func (v *verifier) all(ctx context.Context) (*state.State, error) {
	var err error
	if v.report.Forks, err = store.LoadForks(v.o.Dir, v.o.Cluster, v.o.KeyOf); err != nil {
		return nil, segment.Damaged(filepath.Join(v.o.Dir, segment.ProofDir), err)
	}
	for _, f := range v.report.Forks {
		v.forks[f.Source] = f.Seq
	}
	if v.past, err = loadPast(snapshots.Files{FS: v.o.FS, Dir: v.o.Dir, Cluster: v.o.Cluster}, false); err != nil {
		return nil, err
	}
	if v.o.Known != nil { // a snapshot taken meanwhile has events beyond the limits
		v.past.kept = slices.DeleteFunc(v.past.kept, func(t *event.SnapshotTaken) bool { return !v.o.Known[t.ID] })
	}
	return v.foldPast(ctx)
}

// sources lists the chains that have a directory, those that were dropped, and
// those that the watermark knows.
func (v *verifier) sources() ([]event.SourceID, error) {
	sources, err := segment.SourceDirs(v.o.FS, v.o.Dir)
	if err != nil {
		return nil, err
	}
	for _, b := range v.past.manifest.Bases {
		if !slices.Contains(sources, b.Source) {
			sources = append(sources, b.Source)
		}
	}
	for _, src := range slices.SortedFunc(maps.Keys(v.durable), event.SourceID.Compare) {
		if !slices.Contains(sources, src) {
			sources = append(sources, src)
		}
	}
	return sources, nil
}

// walk reads every chain. With first, it counts, checks signatures and
// collects cuts.
func (v *verifier) walk(ctx context.Context, first bool, each func(event.Event) error) error {
	sources, err := v.sources()
	if err != nil {
		return err
	}
	for _, src := range sources {
		if err := v.chain(ctx, src, first, each); err != nil {
			return err
		}
		if first {
			v.report.Sources++
		}
	}
	return nil
}

func (v *verifier) chain(ctx context.Context, src event.SourceID, first bool, each func(event.Event) error) error {
	dir := filepath.Join(v.o.Dir, segment.SourceDir(src))
	tail := v.past.manifest.Base(src)
	all, err := segment.Files(v.o.FS, dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var firsts []uint64
	for _, f := range all {
		if f <= tail.Seq {
			continue // dropped; the next start removes it
		}
		if _, ok := v.o.Limits[filepath.Join(dir, segment.Name(f))]; ok || v.o.Limits == nil {
			firsts = append(firsts, f)
		}
	}
	if first {
		v.report.Dropped += tail.Seq
	}
	var hlc cluster.HLC
	key := v.o.KeyOf(src.Node)
	for i, from := range firsts {
		s := &segment.Scan{
			ScanOptions: segment.ScanOptions{
				Path: filepath.Join(dir, segment.Name(from)), Cluster: v.o.Cluster, Source: src, Own: src.Node == v.o.Self,
				First: from, Last: i == len(firsts)-1, Known: v.knownSeq(src),
			},
			Tail: tail, Clock: hlc,
		}
		if end := v.ends[s.Path]; v.after != nil && i < len(firsts)-1 && end.Seq <= snapshot.HeadOf(v.after, src).Seq {
			tail, hlc = end, v.clock[s.Path]
			continue
		}
		s.Passing = v.o.ChainsOnly
		if key != nil && first {
			s.Verify = func(h event.Head) error { return record.VerifyHead(v.o.Cluster, h, key) }
		}
		if from != tail.Seq+1 {
			return s.Corrupt(0, 0, "segment starts at seq %d: the one before it is missing", from)
		}
		s.Commit = func(g segment.Group) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return v.group(s, g, key, first, each)
		}
		if err := v.segment(s, first); err != nil {
			return err
		}
		tail, hlc = s.Tail, s.Clock
		v.ends[s.Path], v.clock[s.Path] = tail, hlc
	}
	if known := v.knownSeq(src); tail.Seq < known {
		return &segment.CorruptError{
			Segment: filepath.Join(dir, segment.Name(tail.Seq+1)), Source: src, Seq: tail.Seq + 1, Own: src.Node == v.o.Self,
			Reason: fmt.Sprintf("missing: the chain was durable up to seq %d", known),
		}
	}
	if first {
		v.report.Ends = append(v.report.Ends, event.SourceMark{Source: src, Mark: tail})
	}
	return nil
}

// knownSeq is a seq up to which the chain of src was durable and was not dropped,
// 0 if none is known.
func (v *verifier) knownSeq(src event.SourceID) uint64 {
	if seq := v.durable[src]; seq > v.past.manifest.Base(src).Seq {
		return seq
	}
	return 0
}

// agrees reports an event that contradicts a snapshot.
func (v *verifier) agrees(s *segment.Scan, g segment.Group) error {
	first := g.Head.Seq + 1 - uint64(len(g.Events))
	for _, t := range v.past.kept {
		h := snapshot.HeadOf(t, s.Source)
		if h.Seq < first || h.Seq > g.Head.Seq {
			continue
		}
		if e := g.Events[h.Seq-first]; e.Hash != h.Hash {
			return &segment.CorruptError{
				Segment: s.Path, Offset: g.Off, Source: s.Source, Seq: e.Seq, Own: s.Own,
				Reason: fmt.Sprintf("the snapshot %s names hash %s for this event, whose hash is %s", t.ID, h.Hash, e.Hash),
			}
		}
	}
	return nil
}

func (v *verifier) segment(s *segment.Scan, first bool) error {
	f, err := v.o.FS.OpenFile(s.Path, os.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	if limit, ok := v.o.Limits[s.Path]; ok {
		size = min(size, limit)
	}
	if err := s.Run(f, size); err != nil {
		return err
	}
	if first {
		v.report.Segments++
		v.report.Bytes += s.End
		v.report.TornBytes += s.Torn
	}
	return nil
}

func (v *verifier) group(s *segment.Scan, g segment.Group, key ed25519.PublicKey, first bool, each func(event.Event) error) error {
	if first {
		switch {
		case key == nil:
			v.report.Unchecked++
		case g.BadSig != nil:
			return &segment.CorruptError{
				Segment: s.Path, Offset: g.Off, Record: g.Record + len(g.Events), Source: s.Source, Seq: g.Head.Seq, Own: s.Own,
				Reason: record.ErrSignature.Error(),
			}
		default:
			v.report.Heads++
		}
		if err := v.agrees(s, g); err != nil {
			return err
		}
		v.report.Events += uint64(len(g.Events))
		if v.o.Progress != nil && v.report.Events-v.shown >= progressStep {
			v.shown = v.report.Events
			v.o.Progress(v.shown)
		}
	}
	for _, e := range g.Events {
		if first && !v.o.ChainsOnly && e.Kind == event.KindTermStart {
			v.cut(e)
		}
		if err := each(e); err != nil {
			return err
		}
	}
	return nil
}

// cut notes the positions that a term start names.
func (v *verifier) cut(e event.Event) {
	var body event.TermStart
	if json.Unmarshal(e.Body, &body) != nil {
		return // the fold counts it as malformed
	}
	v.report.Cuts++
	for _, m := range body.Cut {
		if fork, ok := v.forks[m.Source]; ok && m.Seq >= fork {
			continue // of the other history, perhaps
		}
		if v.marks[m.Source] == nil {
			v.marks[m.Source] = map[uint64]cluster.Hash{}
		}
		v.marks[m.Source][m.Seq] = m.Hash
	}
}

// checkCuts compares the positions of all cuts with the chains. Positions
// beyond the end of a chain are no fault: a copy may lag.
func (v *verifier) checkCuts(ctx context.Context) error {
	for src, marks := range v.marks {
		if _, err := v.o.FS.ReadDir(filepath.Join(v.o.Dir, segment.SourceDir(src))); errors.Is(err, os.ErrNotExist) {
			v.report.Missing += uint64(len(marks))
			continue
		}
		err := v.chain(ctx, src, false, func(e event.Event) error {
			want, ok := marks[e.Seq]
			if !ok {
				return nil
			}
			if want != e.Hash {
				return &segment.CorruptError{
					Segment: filepath.Join(v.o.Dir, segment.SourceDir(src)), Source: src, Seq: e.Seq, Own: src.Node == v.o.Self,
					Reason: fmt.Sprintf("a term start names hash %s for this event, whose hash is %s", want, e.Hash),
				}
			}
			delete(marks, e.Seq)
			v.report.CutMarks++
			return nil
		})
		if err != nil {
			return err
		}
		v.report.Missing += uint64(len(marks))
	}
	return nil
}
