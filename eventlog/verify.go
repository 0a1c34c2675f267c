package eventlog

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/snapshot"
	"github.com/skein-project/skein/eventlog/state"
)

// VerifyOptions say what to verify. All fields but FS and Self are required.
type VerifyOptions struct {
	Dir     string
	Cluster string
	// KeyOf returns the identity key of a host, nil if it is not known: its
	// heads are counted as unchecked.
	KeyOf func(cluster.NodeID) ed25519.PublicKey
	Self  cluster.NodeID // only for hints
	FS    FS             // default OSFS()
	// Progress is called, if not nil, with the number of events read, after
	// every few of them. It may block to slow the reading down.
	Progress func(events uint64)
	// ChainsOnly leaves out what needs the bodies: the cuts of term starts and
	// the state.
	ChainsOnly bool
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
	// Snapshots is how many snapshots were replayed and are right, Signers how
	// many voters of the newest are known and have signed it, and Dropped how
	// many events are only in a snapshot.
	Snapshots int    `json:"snapshots"`
	Signers   int    `json:"snapshot_signers"`
	Dropped   uint64 `json:"events_dropped"`
	// Forks are the sources that are proven to have signed two histories. Two
	// hosts may hold different events of them from there on; these do not count.
	Forks []Fork `json:"forks,omitempty"`
	// Ends are the last positions of the chains, by source.
	Ends cluster.Cut `json:"ends"`
}

// progressStep is how many events lie between two calls of Progress.
const progressStep = 4096

// verifier walks all chains of a log.
type verifier struct {
	durable map[cluster.SourceID]uint64 // what the watermark says of each chain
	o       VerifyOptions
	limits  map[string]int64 // by path: what is durable; nil: all there is
	report  Report
	told    uint64 // events of the last Progress
	marks   map[cluster.SourceID]map[uint64]cluster.Hash
	forks   map[cluster.SourceID]uint64

	past  past
	known map[cluster.Hash]bool   // snapshots that count; nil: all
	after *cluster.SnapshotTaken  // a later walk begins here; nil: at the beginning
	ends  map[string]cluster.Mark // by segment, from the first walk
	clock map[string]cluster.HLC  // likewise
	stale bool                    // the fold waits for Refold
}

// Verify reads the whole log in o.Dir, which another process may have open,
// and checks framing, checksums, hash chains, head signatures and the cuts of
// term starts. It changes nothing. A *CorruptError names the first thing that
// is wrong; the report covers what was read until then.
func Verify(ctx context.Context, o VerifyOptions) (Report, error) {
	for try := 1; ; try++ {
		before := droppedIn(o)
		r, err := verify(ctx, o, nil, nil)
		if err == nil || ctx.Err() != nil || try == verifyTries || droppedIn(o) == before {
			return r, err
		}
		// The process that has it open dropped segments meanwhile.
	}
}

// verifyTries bounds how often a log is read again of which segments vanish.
const verifyTries = 3

// droppedIn counts the segments and positions that the manifest says are
// dropped, -1 if that cannot be told.
func droppedIn(o VerifyOptions) int {
	if o.FS == nil {
		o.FS = OSFS()
	}
	m, err := snapshotStore{fs: o.FS, dir: o.Dir, cluster: o.Cluster}.manifest()
	if err != nil {
		return -1
	}
	return len(m.Segments) + len(m.Bases)
}

// Verify checks this log as the function Verify does, up to what is durable
// when it starts.
func (l *Log) Verify(ctx context.Context) (Report, error) { return l.VerifyProgress(ctx, nil) }

// VerifyProgress is Verify with VerifyOptions.Progress.
func (l *Log) VerifyProgress(ctx context.Context, progress func(events uint64)) (Report, error) {
	// What is dropped waits until this is over.
	l.snap.files.RLock()
	defer l.snap.files.RUnlock()
	known := map[cluster.Hash]bool{}
	for _, s := range l.Snapshots().Kept {
		known[s.ID] = true
	}
	limits := map[string]int64{}
	l.mu.RLock()
	for _, c := range l.chains {
		for _, s := range c.segs {
			limits[s.path] = s.size
		}
	}
	l.mu.RUnlock()
	began := time.Now()
	r, err := verify(ctx, VerifyOptions{Dir: l.o.Dir, Cluster: l.o.Cluster, KeyOf: l.o.keyOf, Self: l.o.Self, FS: l.fs, Progress: progress}, limits, known)
	l.m.verified.Add(float64(r.Events))
	if err == nil {
		l.m.verifyRate.Set(float64(r.Events) / max(time.Since(began), time.Microsecond).Seconds())
	}
	return r, err
}

func verify(ctx context.Context, o VerifyOptions, limits map[string]int64, known map[cluster.Hash]bool) (Report, error) {
	if o.Dir == "" || o.Cluster == "" || o.KeyOf == nil {
		return Report{}, errors.New("verify event log: directory, cluster id and keys are required")
	}
	if o.FS == nil {
		o.FS = OSFS()
	}
	v := &verifier{
		o: o, limits: limits, marks: map[cluster.SourceID]map[uint64]cluster.Hash{}, forks: map[cluster.SourceID]uint64{},
		known: known, ends: map[string]cluster.Mark{}, clock: map[string]cluster.HLC{},
	}
	if limits == nil { // of a running log everything durable is within them
		heads, err := loadMarks(o.Dir)
		if err != nil {
			return v.report, fmt.Errorf("verify event log: %w", err)
		}
		v.durable = map[cluster.SourceID]uint64{}
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
	if v.report.Forks, err = LoadForks(v.o.Dir, v.o.Cluster, v.o.KeyOf); err != nil {
		return nil, &CorruptError{Segment: filepath.Join(v.o.Dir, proofDir), Reason: err.Error()}
	}
	for _, f := range v.report.Forks {
		v.forks[f.Source] = f.Seq
	}
	if v.past, err = loadPast(snapshotStore{fs: v.o.FS, dir: v.o.Dir, cluster: v.o.Cluster}, false); err != nil {
		return nil, err
	}
	if v.known != nil { // a snapshot taken meanwhile has events beyond the limits
		v.past.kept = slices.DeleteFunc(v.past.kept, func(t *cluster.SnapshotTaken) bool { return !v.known[t.ID] })
	}
	return v.foldPast(ctx)
}

// walk reads every chain. With first, it counts, checks signatures and
// collects cuts.
func (v *verifier) walk(ctx context.Context, first bool, each func(cluster.Event) error) error {
	sources, err := sourceDirs(v.o.FS, v.o.Dir)
	if err != nil {
		return err
	}
	for _, b := range v.past.manifest.Bases {
		if !slices.Contains(sources, b.Source) {
			sources = append(sources, b.Source)
		}
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

func (v *verifier) chain(ctx context.Context, src cluster.SourceID, first bool, each func(cluster.Event) error) error {
	dir := filepath.Join(v.o.Dir, sourceDir(src))
	tail := v.past.manifest.Base(src)
	all, err := segmentFiles(v.o.FS, dir)
	if err != nil && (tail.Seq == 0 || !errors.Is(err, os.ErrNotExist)) {
		return err
	}
	var firsts []uint64
	for _, f := range all {
		if f <= tail.Seq {
			continue // dropped; the next start removes it
		}
		if _, ok := v.limits[filepath.Join(dir, segmentName(f))]; ok || v.limits == nil {
			firsts = append(firsts, f)
		}
	}
	if first {
		v.report.Dropped += tail.Seq
	}
	var hlc cluster.HLC
	key := v.o.KeyOf(src.Node)
	for i, from := range firsts {
		s := &segmentScan{
			path: filepath.Join(dir, segmentName(from)), cluster: v.o.Cluster, src: src, own: src.Node == v.o.Self,
			first: from, last: i == len(firsts)-1, tail: tail, hlc: hlc, known: v.knownSeq(src),
		}
		if end := v.ends[s.path]; v.after != nil && i < len(firsts)-1 && end.Seq <= snapshot.HeadOf(v.after, src).Seq {
			tail, hlc = end, v.clock[s.path]
			continue
		}
		s.passing = v.o.ChainsOnly
		if key != nil && first {
			s.verify = func(h cluster.Head) error { return record.VerifyHead(v.o.Cluster, h, key) }
		}
		if from != tail.Seq+1 {
			return s.corrupt(0, 0, "segment starts at seq %d: the one before it is missing", from)
		}
		s.commit = func(g group) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return v.group(s, g, key, first, each)
		}
		if err := v.segment(s, first); err != nil {
			return err
		}
		tail, hlc = s.tail, s.hlc
		v.ends[s.path], v.clock[s.path] = tail, hlc
	}
	if known := v.knownSeq(src); tail.Seq < known && len(all) > 0 {
		return &CorruptError{
			Segment: filepath.Join(dir, segmentName(tail.Seq+1)), Source: src, Seq: tail.Seq + 1, Own: src.Node == v.o.Self,
			Reason: fmt.Sprintf("missing: the chain was durable up to seq %d", known),
		}
	}
	if first {
		v.report.Ends = append(v.report.Ends, cluster.SourceMark{Source: src, Mark: tail})
	}
	return nil
}

// knownSeq is a seq up to which the chain of src was durable and no snapshot
// stands for it, 0 if none is known.
func (v *verifier) knownSeq(src cluster.SourceID) uint64 {
	seq := v.durable[src]
	if len(v.past.kept) > 0 && seq <= snapshot.HeadOf(v.past.kept[0], src).Seq {
		return 0
	}
	return seq
}

func (v *verifier) segment(s *segmentScan, first bool) error {
	f, err := v.o.FS.OpenFile(s.path, os.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	if limit, ok := v.limits[s.path]; ok {
		size = min(size, limit)
	}
	if err := s.run(f, size); err != nil {
		return err
	}
	if first {
		v.report.Segments++
		v.report.Bytes += s.end
		v.report.TornBytes += s.torn
	}
	return nil
}

func (v *verifier) group(s *segmentScan, g group, key ed25519.PublicKey, first bool, each func(cluster.Event) error) error {
	if first {
		switch {
		case key == nil:
			v.report.Unchecked++
		case g.sig != nil:
			return &CorruptError{
				Segment: s.path, Offset: g.off, Record: g.rec + len(g.events), Source: s.src, Seq: g.head.Seq, Own: s.own,
				Reason: record.ErrSignature.Error(),
			}
		default:
			v.report.Heads++
		}
		v.report.Events += uint64(len(g.events))
		if v.o.Progress != nil && v.report.Events-v.told >= progressStep {
			v.told = v.report.Events
			v.o.Progress(v.told)
		}
	}
	for _, e := range g.events {
		if first && !v.o.ChainsOnly && e.Kind == cluster.KindTermStart {
			v.cut(e)
		}
		if err := each(e); err != nil {
			return err
		}
	}
	return nil
}

// cut notes the positions that a term start names.
func (v *verifier) cut(e cluster.Event) {
	var body cluster.TermStart
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
		if _, err := v.o.FS.ReadDir(filepath.Join(v.o.Dir, sourceDir(src))); errors.Is(err, os.ErrNotExist) {
			v.report.Missing += uint64(len(marks))
			continue
		}
		err := v.chain(ctx, src, false, func(e cluster.Event) error {
			want, ok := marks[e.Seq]
			if !ok {
				return nil
			}
			if want != e.Hash {
				return &CorruptError{
					Segment: filepath.Join(v.o.Dir, sourceDir(src)), Source: src, Seq: e.Seq, Own: src.Node == v.o.Self,
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
