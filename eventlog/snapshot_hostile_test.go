package eventlog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/snapshot"
	"github.com/skein-project/skein/eventlog/snapshots"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/wire"
)

// liar answers the questions of a host that fetches a snapshot.
type liar struct {
	heads []event.Head
	taken []byte // the text of its snapshot
	state func(off uint64) (wire.Type, []byte)
}

func (li *liar) serve(conn net.Conn) {
	defer conn.Close()
	for {
		m, err := wire.ReadMessage(conn)
		if err != nil {
			return
		}
		kind, payload := wire.MsgSorry, []byte("what?")
		switch m.Kind {
		case wire.MsgHeads:
			kind = wire.MsgHeadsAre
			payload, _ = record.AppendHeads(nil, li.heads)
		case wire.MsgForks:
			kind, payload = wire.MsgForksAre, wire.AppendForks(nil, nil)
		case wire.MsgWant:
			kind, payload = wire.MsgCompacted, binary.BigEndian.AppendUint64(nil, 1000)
		case wire.MsgSnapshot:
			kind, payload = wire.MsgSnapshotIs, li.taken
		case wire.MsgState:
			kind, payload = li.state(binary.BigEndian.Uint64(m.Payload[32:]))
		}
		if kind == 0 {
			_, _ = io.Copy(io.Discard, conn) // a stall, until the other side gives up
			return
		}
		if wire.WriteMessage(conn, kind, payload) != nil {
			return
		}
	}
}

func resigned(t *event.SnapshotTaken, change func(*event.SnapshotTaken), signers ...cluster.NodeID) *event.SnapshotTaken {
	c := *t
	c.Heads = slices.Clone(t.Heads)
	change(&c)
	c.ID, c.Signatures = snapshot.ID(testCluster, &c), nil
	for _, n := range signers {
		c.Signatures = snapshot.Add(c.Signatures, snapshot.Sign(testCluster, c.ID, n, keyFor(n)))
	}
	return &c
}

// TestFetchRefusesBadSnapshots offers a new host every kind of bad snapshot. It
// takes none, says why and counts it, and takes the good one of another host.
func TestFetchRefusesBadSnapshots(t *testing.T) {
	tr := newSnapTrio(t, nil)
	a := tr.logs["a"]
	for i := range 2 {
		work(t, a, 1, string(rune('j'+i)), 60)
		tr.level(t, mustSnapshot(t, a).ID)
	}
	eventually(t, "segments dropped", func() bool { return a.Oldest()[a.Source()] > 0 })
	good, encoded := newestOf(t, a)
	// Another id, or the voters would vouch for it when they are asked.
	later := func(s *event.SnapshotTaken) { s.Clock++ }
	text := func(s *event.SnapshotTaken) []byte {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	parts := func(b []byte) func(uint64) (wire.Type, []byte) {
		return func(off uint64) (wire.Type, []byte) { return wire.MsgStateIs, b[min(off, uint64(len(b))):] }
	}
	forged := resigned(good, later, "a")
	forged.Signatures = snapshot.Add(forged.Signatures, event.Signature{Node: "b", Sig: bytes.Repeat([]byte{7}, 64)})
	other := *good
	other.ID = snapshot.ID("other-cluster", &other)
	unsigned := resigned(good, func(s *event.SnapshotTaken) { s.Heads[0].Sig = make([]byte, 64) }, "a", "b")
	wrong := bytes.Clone(encoded)
	wrong[len(wrong)/2] ^= 1
	foreign := resigned(good, func(s *event.SnapshotTaken) {
		h := record.SignHead(testCluster, event.Head{Source: event.SourceID{Node: "d", Inc: 1}, Seq: 1, Hash: cluster.Hash{5}}, keyFor("d"))
		s.Heads = append(s.Heads, h)
	}, "a", "b")
	for name, tc := range map[string]struct {
		taken []byte
		state func(uint64) (wire.Type, []byte)
		says  string
	}{
		"garbage":             {[]byte("garbage"), nil, "invalid snapshot"},
		"not signed":          {text(resigned(good, later)), nil, "0 of 3 voters"},
		"too few signatures":  {text(resigned(good, later, "a")), nil, "1 of 3 voters"},
		"signers do not vote": {text(resigned(good, later, "a", "d", "x", "y")), nil, "1 of 3 voters"},
		"forged signature":    {text(forged), nil, "forged"},
		"another cluster":     {text(&other), nil, "in this cluster"},
		"changed":             {text(resigned(good, func(s *event.SnapshotTaken) { s.State[0]++ }, "a", "b")), parts(encoded), "state hash"},
		"head not signed":     {text(unsigned), nil, "head of a/1"},
		"other bytes":         {text(good), parts(wrong), "SHA-256"},
		"too short":           {text(good), func(uint64) (wire.Type, []byte) { return wire.MsgStateIs, nil }, "of 0 bytes"},
		"too long":            {text(good), parts(append(bytes.Clone(encoded), 1)), "question for a state"},
		"too large":           {text(resigned(good, func(s *event.SnapshotTaken) { s.Size = snapshot.MaxSize + 1 }, "a", "b")), nil, "at most"},
		"stall":               {text(good), func(uint64) (wire.Type, []byte) { return 0, nil }, "at byte 0"},
		"own chain":           {text(foreign), parts(encoded), ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := snapOptions(t.TempDir(), "d")
			if o.PullEvery = -1; name == "stall" {
				o.IOTimeout = 2 * time.Second
			}
			o.Dial = tr.net.dialer("d")
			l, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- l.Run(ctx) }()
			defer func() {
				cancel()
				check(t, <-done)
			}()
			l.SetVoters(voters("a", "b", "c"))
			own := mustAppend(t, l, note(1))[0]
			li := &liar{heads: a.Heads(), taken: tc.taken, state: tc.state}
			tr.net.mu.Lock()
			tr.net.answer["e"] = li.serve
			tr.net.mu.Unlock()
			if err := l.Sync(t.Context(), "e"); !errors.Is(err, wire.ErrDropped) {
				t.Fatal(err)
			}
			if name == "own chain" {
				// Its own event is in the cut with another hash: to follow would
				// be to equivocate, so the chain goes on as a new one.
				eventually(t, "a new incarnation", func() bool { return l.Source().Inc == 2 })
			} else {
				eventually(t, "the refusal is told", func() bool { return strings.Contains(l.Snapshots().Trouble, tc.says) })
			}
			if len(l.Snapshots().Kept) != 0 || l.Head(a.Source()).Seq != 0 {
				t.Fatalf("taken: %+v", l.Snapshots())
			}
			if h := l.Head(own.Source); h.Seq != 1 || h.Hash != own.Hash {
				t.Fatalf("own chain at %+v", h)
			}
			_ = l.Sync(t.Context(), "a")
			eventually(t, "the good snapshot is taken", func() bool { return newestID(l) == good.ID })
			if l.Head(a.Source()).Seq < snapshot.HeadOf(good, a.Source()).Seq {
				t.Fatal("chain of a not gone on")
			}
		})
	}
}

// newestOf returns the newest snapshot on the disk of l, and its encoded state.
func newestOf(t testing.TB, l *Log) (taken *event.SnapshotTaken, encoded []byte) {
	t.Helper()
	files := snapshots.Files{FS: l.o.FS, Dir: l.o.Dir, Cluster: l.o.Cluster}
	names, _, err := files.Names()
	if err != nil || len(names) == 0 {
		t.Fatalf("no snapshot: %v", err)
	}
	f, taken, at, err := files.Open(names[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	encoded, err = disk.ReadRange(f, at, at+taken.Size)
	if err != nil {
		t.Fatal(err)
	}
	return taken, encoded
}

// foldCut folds the events up to the cut of s and puts into s what follows.
func foldCut(t *testing.T, l *Log, s *event.SnapshotTaken) {
	t.Helper()
	st := state.New()
	for _, h := range s.Heads {
		err := l.ReadUpTo(h, 0, func(e event.Event) bool {
			if st.Apply(e) {
				t.Fatal("the fold is stale")
			}
			s.Clock = max(s.Clock, e.HLC)
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	encoded, err := st.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Size, s.Sum, s.State = int64(len(encoded)), sha256.Sum256(encoded), st.Hash()
}

// stepsRefused is how many snapshots in the log were refused.
func stepsRefused(families []*dto.MetricFamily) (n float64) {
	for _, f := range families {
		if f.GetName() != "skein_eventlog_snapshot_steps_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, p := range m.GetLabel() {
				labels[p.GetName()] = p.GetValue()
			}
			if labels["step"] == "make" && labels["result"] == "refused" {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// propose puts one proposal to a voter until it has judged it.
func propose(t *testing.T, l *Log, from cluster.NodeID, s *event.SnapshotTaken) (wire.Type, string) {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var kind wire.Type
	var answer []byte
	eventually(t, "the voter has judged", func() bool {
		kind, answer, err = l.snaps.Answer(from, wire.Message{Kind: wire.MsgPropose, Payload: b})
		return err != nil || kind != wire.MsgLater
	})
	if err != nil {
		return wire.MsgSorry, err.Error()
	}
	return kind, string(answer)
}

// TestVotersSignOnlyWhatTheyFold proposes snapshots that are wrong in one way
// each. No voter signs any, and each signs the right one.
func TestVotersSignOnlyWhatTheyFold(t *testing.T) {
	var promised atomic.Uint64
	tr := newSnapTrio(t, func(o *Options) {
		if o.Self == "b" {
			o.Promised = func() cluster.Term { return cluster.Term(promised.Load()) }
		}
	})
	a, b := tr.logs["a"], tr.logs["b"]
	work(t, a, 1, "j", 30)
	eventually(t, "b has all", func() bool { return b.Digest() == a.Digest() })
	good := &event.SnapshotTaken{Term: 1}
	good.Heads, good.Forks = a.SignedCut()
	foldCut(t, a, good)
	good.ID = snapshot.ID(testCluster, good)
	for name, tc := range map[string]struct {
		from   cluster.NodeID
		change func(*event.SnapshotTaken)
		says   string
	}{
		"state":      {"a", func(s *event.SnapshotTaken) { s.State[3]++ }, "folds the same events to state"},
		"bytes":      {"a", func(s *event.SnapshotTaken) { s.Sum[3]++ }, "folds the same events to state"},
		"clock":      {"a", func(s *event.SnapshotTaken) { s.Clock++ }, "clock"},
		"hash":       {"a", func(s *event.SnapshotTaken) { s.Heads[0].Hash[0]++ }, "in the cut"},
		"not holder": {"c", func(*event.SnapshotTaken) {}, "not its own"},
		"wrong term": {"a", func(s *event.SnapshotTaken) { s.Term = 2 }, "not its own"},
		"garbled":    {"a", func(s *event.SnapshotTaken) { s.Heads = nil }, "cut of 0 sources"},
		"unknown fork": {"a", func(s *event.SnapshotTaken) {
			s.Forks = []event.SourceFork{{Source: event.SourceID{Node: "z", Inc: 1}, Seq: 1}}
		}, ""},
	} {
		bad := resigned(good, tc.change)
		if name == "unknown fork" {
			// Its proof may yet come: the voter does not answer for good.
			kind, _, err := b.snaps.Answer("a", wire.Message{Kind: wire.MsgPropose, Payload: mustJSON(t, bad)})
			if err != nil || kind != wire.MsgLater {
				t.Errorf("%s: %d, %v", name, kind, err)
			}
			continue
		}
		voter := b
		if bad.Term > good.Term { // it would refuse proposals of lower terms from then on
			voter = tr.logs["c"]
		}
		if kind, text := propose(t, voter, tc.from, bad); kind != wire.MsgRefused && kind != wire.MsgSorry || !strings.Contains(text, tc.says) {
			t.Errorf("%s: answer %d: %.200q, want %q", name, kind, text, tc.says)
		}
	}
	if b.Snapshots().Mismatch == "" {
		t.Error("a state that differs is no alarm")
	}
	promised.Store(2)
	if kind, text := propose(t, b, "a", good); kind != wire.MsgRefused || !strings.Contains(text, "promised term 2") {
		t.Errorf("after a promise: %d, %q", kind, text)
	}
	promised.Store(1)
	// A voter remembers its answer until somebody asks for another signature.
	propose(t, b, "a", resigned(good, func(s *event.SnapshotTaken) { s.Clock += 2 }))
	kind, sig := propose(t, b, "a", good)
	if kind != wire.MsgSigned || !snapshot.Signed(testCluster, good.ID, event.Signature{Node: "b", Sig: []byte(sig)}, pubFor("b")) {
		t.Errorf("the right one: answer %d", kind)
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestForgedSnapshotEventsChangeNothing logs snapshots that too few have signed
// or that are garbage. Every host refuses them; the next good one works.
func TestForgedSnapshotEventsChangeNothing(t *testing.T) {
	tr := newSnapTrio(t, nil)
	a, c := tr.logs["a"], tr.logs["c"]
	work(t, a, 1, "j", 30)
	forged := &event.SnapshotTaken{Term: 1}
	forged.Heads, _ = a.SignedCut()
	foldCut(t, a, forged)
	lone := resigned(forged, func(*event.SnapshotTaken) {}, "c")
	other := resigned(forged, func(s *event.SnapshotTaken) { s.State[0]++ }, "a", "b", "c")
	for _, body := range []any{lone, other, event.SnapshotTaken{ID: cluster.Hash{3}}} {
		mustAppend(t, c, event.Draft{Kind: event.KindSnapshot, Body: body})
	}
	for id, l := range tr.logs {
		eventually(t, "refusals on "+string(id), func() bool {
			families, err := l.o.Registerer.(prometheus.Gatherer).Gather()
			if err != nil {
				t.Fatal(err)
			}
			return stepsRefused(families) >= 3 // all of them
		})
		if len(l.Snapshots().Kept) != 0 || l.Snapshots().Mismatch == "" {
			t.Fatalf("%s: %+v", id, l.Snapshots())
		}
	}
	tr.level(t, mustSnapshot(t, a).ID)
}
