package eventlog

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/segment"
)

// forger writes segments that are right byte by byte, but for what it is told
// to forge.
type forger struct {
	t      *testing.T
	b      []byte
	frames []int64 // offsets
	prev   event.Mark
	base   uint64
	hlc    cluster.HLC
}

func (f *forger) frame(kind record.Type, base uint64, payload []byte, err error) *forger {
	f.t.Helper()
	if err == nil {
		f.frames = append(f.frames, int64(len(f.b)))
		f.b, err = record.AppendFrame(f.b, record.Frame{Type: kind, Base: base, Payload: payload})
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return f
}

// newForger begins a segment of chain n1/1 after prev.
func newForger(t *testing.T, prev event.Mark, forge func(*record.Header)) *forger {
	f := &forger{t: t, b: []byte(record.Magic), prev: prev, base: prev.Seq + 1, hlc: cluster.HLC(1000 * (prev.Seq + 1))}
	h := record.Header{Cluster: testCluster, Source: event.SourceID{Node: "n1", Inc: 1}, First: f.base, Prev: prev.Hash}
	if forge != nil {
		forge(&h)
	}
	p, err := record.AppendHeader(nil, h)
	return f.frame(record.TypeHeader, f.base, p, err)
}

func (f *forger) event(forge func(*event.Event)) *forger {
	f.hlc++
	e := event.Event{
		Source: event.SourceID{Node: "n1", Inc: 1}, Seq: f.prev.Seq + 1, Prev: f.prev.Hash, HLC: f.hlc,
		Kind: event.KindHostStarted, Body: []byte(`{"version":"1"}`),
	}
	if forge != nil {
		forge(&e)
	}
	p, err := record.AppendEvent(nil, e)
	f.prev = event.Mark{Seq: e.Seq, Hash: record.HashEvent(e.Prev, p)}
	return f.frame(record.TypeEvent, f.base, p, err)
}

func (f *forger) head(signer cluster.NodeID, forge func(*event.Head)) *forger {
	h := event.Head{Source: event.SourceID{Node: "n1", Inc: 1}, Seq: f.prev.Seq, Hash: f.prev.Hash}
	if forge != nil {
		forge(&h)
	}
	p, err := record.AppendHead(nil, record.SignHead(testCluster, h, keyFor(signer)))
	f.frame(record.TypeHead, f.base, p, err)
	f.base = f.prev.Seq + 1
	return f
}

// good adds a whole group.
func (f *forger) good() *forger { return f.event(nil).head("n1", nil) }

func (f *forger) seal(forge func(*record.Seal)) *forger {
	s := record.Seal{Last: f.prev.Seq, Hash: f.prev.Hash}
	if forge != nil {
		forge(&s)
	}
	return f.frame(record.TypeSeal, f.prev.Seq+1, record.AppendSeal(nil, s), nil)
}

// TestForgedFilesAreRefused writes files that no crash and no disk makes, only
// somebody who knows the format: each is refused with the place, and nothing is
// changed.
func TestForgedFilesAreRefused(t *testing.T) {
	type files map[uint64]*forger
	begin := func(t *testing.T) *forger { return newForger(t, event.Mark{}, nil) }
	for name, tc := range map[string]struct {
		write  func(t *testing.T) files
		seg    uint64 // where the fault is
		frame  int    // its number
		seq    uint64
		reason string
		verify bool // only Verify looks
	}{
		"segment of another cluster": {func(t *testing.T) files {
			return files{1: newForger(t, event.Mark{}, func(h *record.Header) { h.Cluster = "other" }).good()}
		}, 1, 0, 1, `header says cluster "other"`, false},
		"segment of another source": {func(t *testing.T) files {
			return files{1: newForger(t, event.Mark{}, func(h *record.Header) { h.Source.Node = "n2" }).good()}
		}, 1, 0, 1, "source n2/1", false},
		"segment of another incarnation": {func(t *testing.T) files {
			return files{1: newForger(t, event.Mark{}, func(h *record.Header) { h.Source.Inc = 2 }).good()}
		}, 1, 0, 1, "source n1/2", false},
		"segment renamed": {func(t *testing.T) files {
			a := begin(t).good().seal(nil)
			return files{1: a, 3: newForger(t, a.prev, nil).good()}
		}, 3, -1, 2, "segment starts at seq 3: the one before it is missing", false},
		"segment of another history": {func(t *testing.T) files {
			a := begin(t).good().seal(nil)
			b := newForger(t, event.Mark{Seq: 1, Hash: cluster.Hash{7}}, nil).good()
			return files{1: a, 2: b}
		}, 2, 0, 2, "previous 07", false},
		"not sealed and not the last": {func(t *testing.T) files {
			a := begin(t).good()
			return files{1: a, 2: newForger(t, a.prev, nil).good()}
		}, 1, 3, 2, "ends without a seal", false},
		"event twice": {func(t *testing.T) files {
			f := begin(t).good()
			return files{1: f.event(func(e *event.Event) { e.Seq = 1; e.Prev = cluster.Hash{} }).head("n1", nil)}
		}, 1, 3, 2, "event with seq 1, want 2", false},
		"event left out": {func(t *testing.T) files {
			return files{1: begin(t).good().event(func(e *event.Event) { e.Seq = 3 }).head("n1", nil)}
		}, 1, 3, 2, "event with seq 3, want 2", false},
		"event of another history": {func(t *testing.T) files {
			return files{1: begin(t).good().event(func(e *event.Event) { e.Prev = cluster.Hash{9} }).head("n1", nil)}
		}, 1, 3, 2, "event with previous hash 09", false},
		"event of another source": {func(t *testing.T) files {
			return files{1: begin(t).good().event(func(e *event.Event) { e.Source.Node = "n2" }).head("n1", nil)}
		}, 1, 3, 2, "event of source n2/1", false},
		"clock goes back": {func(t *testing.T) files {
			return files{1: begin(t).good().event(func(e *event.Event) { e.HLC = 5 }).head("n1", nil)}
		}, 1, 3, 2, "not after", false},
		"group of the future": {func(t *testing.T) files {
			f := begin(t).good()
			f.base = 9
			return files{1: f.good()}
		}, 1, 3, 2, "event of group 9 in group 2", false},
		"head of something else": {func(t *testing.T) files {
			return files{1: begin(t).event(nil).head("n1", func(h *event.Head) { h.Hash = cluster.Hash{3} })}
		}, 1, 2, 1, "does not match the chain", false},
		"head without events": {func(t *testing.T) files {
			return files{1: begin(t).good().head("n1", nil)}
		}, 1, 3, 2, "does not match the chain", false},
		"head signed by another host, at the end": {func(t *testing.T) files {
			return files{1: begin(t).event(nil).head("n2", nil)}
		}, 1, -1, 1, "signature does not verify", false},
		"head signed by another host, in the middle": {func(t *testing.T) files {
			return files{1: begin(t).good().event(nil).head("n2", nil).good()}
		}, 1, 3, 2, "signature does not verify", true},
		"seal of something else": {func(t *testing.T) files {
			f := begin(t).good().seal(func(s *record.Seal) { s.Last = 7 })
			return files{1: f}
		}, 1, 3, 2, "seal at seq 7", false},
		"event after the seal": {func(t *testing.T) files {
			return files{1: begin(t).good().seal(nil).event(nil).head("n1", nil)}
		}, 1, 4, 2, "after the seal", false},
		"header twice": {func(t *testing.T) files {
			f := begin(t).good()
			return files{1: f.frame(record.TypeHeader, 2, f.b[f.frames[0]+record.FrameHeaderLen:f.frames[1]], nil).good()}
		}, 1, 3, 2, "unexpected header record", false},
	} {
		t.Run(name, func(t *testing.T) {
			o := testOptions(t.TempDir(), "n1")
			dir := filepath.Join(o.Dir, "n1.1")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			fs := tc.write(t)
			for first, f := range fs {
				if err := os.WriteFile(filepath.Join(dir, segment.Name(first)), f.b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			check := func(who string, err error) {
				t.Helper()
				c, ok := errors.AsType[*segment.CorruptError](err)
				if !ok {
					t.Fatalf("%s: %v, want a *segment.CorruptError", who, err)
				}
				if c.Segment != filepath.Join(dir, segment.Name(tc.seg)) || c.Seq != tc.seq || !strings.Contains(c.Reason, tc.reason) {
					t.Errorf("%s: %v; want segment %d, seq %d, %q", who, c, tc.seg, tc.seq, tc.reason)
				}
				f := fs[tc.seg]
				if tc.frame >= 0 && tc.frame < len(f.frames) && c.Offset != f.frames[tc.frame] {
					t.Errorf("%s: offset %d, want %d", who, c.Offset, f.frames[tc.frame])
				}
			}
			_, err := audit.Verify(t.Context(), audit.VerifyOptions{Dir: o.Dir, Cluster: testCluster, KeyOf: pubFor, Self: "n1"})
			check("verify", err)
			if tc.verify {
				return
			}
			_, err = Open(o)
			check("open", err)
			for first, f := range fs {
				if b, err := os.ReadFile(filepath.Join(dir, segment.Name(first))); err != nil || string(b) != string(f.b) {
					t.Errorf("segment %d was changed: %v", first, err)
				}
			}
		})
	}
}
