package eventlog

import (
	"bytes"
	"context"
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

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/snapshot"
)

// liar answers the questions of a host that fetches a snapshot.
type liar struct {
	heads []cluster.Head
	taken []byte // the text of its snapshot
	state func(off uint64) (messageType, []byte)
}

func (li *liar) serve(conn net.Conn) {
	defer conn.Close()
	for {
		m, err := readMessage(conn)
		if err != nil {
			return
		}
		kind, payload := msgSorry, []byte("what?")
		switch m.kind {
		case msgHeads:
			kind = msgHeadsAre
			payload, _ = record.AppendHeads(nil, li.heads)
		case msgForks:
			kind, payload = msgForksAre, appendForks(nil, nil)
		case msgWant:
			kind, payload = msgCompacted, binary.BigEndian.AppendUint64(nil, 1000)
		case msgSnapshot:
			kind, payload = msgSnapshotIs, li.taken
		case msgState:
			kind, payload = li.state(binary.BigEndian.Uint64(m.payload[32:]))
		}
		if kind == 0 {
			_, _ = io.Copy(io.Discard, conn) // a stall, until the other side gives up
			return
		}
		if writeMessage(conn, kind, payload) != nil {
			return
		}
	}
}

func resigned(t *cluster.SnapshotTaken, change func(*cluster.SnapshotTaken), signers ...cluster.NodeID) *cluster.SnapshotTaken {
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
	good := a.snap.newest()
	encoded, err := a.snap.store.part(good, 0, good.Size)
	if err != nil {
		t.Fatal(err)
	}
	// Another id, or the voters would vouch for it when they are asked.
	later := func(s *cluster.SnapshotTaken) { s.Clock++ }
	text := func(s *cluster.SnapshotTaken) []byte {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	parts := func(b []byte) func(uint64) (messageType, []byte) {
		return func(off uint64) (messageType, []byte) { return msgStateIs, b[min(off, uint64(len(b))):] }
	}
	forged := resigned(good, later, "a")
	forged.Signatures = snapshot.Add(forged.Signatures, cluster.Signature{Node: "b", Sig: bytes.Repeat([]byte{7}, 64)})
	other := *good
	other.ID = snapshot.ID("other-cluster", &other)
	unsigned := resigned(good, func(s *cluster.SnapshotTaken) { s.Heads[0].Sig = make([]byte, 64) }, "a", "b")
	wrong := bytes.Clone(encoded)
	wrong[len(wrong)/2] ^= 1
	foreign := resigned(good, func(s *cluster.SnapshotTaken) {
		h := record.SignHead(testCluster, cluster.Head{Source: cluster.SourceID{Node: "d", Inc: 1}, Seq: 1, Hash: cluster.Hash{5}}, keyFor("d"))
		s.Heads = append(s.Heads, h)
	}, "a", "b")
	for name, tc := range map[string]struct {
		taken []byte
		state func(uint64) (messageType, []byte)
		says  string
	}{
		"garbage":             {[]byte("garbage"), nil, "invalid snapshot"},
		"not signed":          {text(resigned(good, later)), nil, "0 of 3 voters"},
		"too few signatures":  {text(resigned(good, later, "a")), nil, "1 of 3 voters"},
		"signers do not vote": {text(resigned(good, later, "a", "d", "x", "y")), nil, "1 of 3 voters"},
		"forged signature":    {text(forged), nil, "forged"},
		"another cluster":     {text(&other), nil, "in this cluster"},
		"changed":             {text(resigned(good, func(s *cluster.SnapshotTaken) { s.State[0]++ }, "a", "b")), parts(encoded), "state hash"},
		"head not signed":     {text(unsigned), nil, "head of a/1"},
		"other bytes":         {text(good), parts(wrong), "SHA-256"},
		"too short":           {text(good), func(uint64) (messageType, []byte) { return msgStateIs, nil }, "of 0 bytes"},
		"too long":            {text(good), parts(append(bytes.Clone(encoded), 1)), "question for a state"},
		"too large":           {text(resigned(good, func(s *cluster.SnapshotTaken) { s.Size = snapshot.MaxSize + 1 }, "a", "b")), nil, "at most"},
		"stall":               {text(good), func(uint64) (messageType, []byte) { return 0, nil }, "at byte 0"},
		"own chain":           {text(foreign), parts(encoded), ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := snapOptions(t.TempDir(), "d")
			if o.PullEvery = -1; name == "stall" {
				o.IOTimeout = 200 * time.Millisecond
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
			if err := l.Sync(t.Context(), "e"); !errors.Is(err, errDropped) {
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

// propose puts one proposal to a voter until it has judged it.
func propose(t *testing.T, l *Log, from cluster.NodeID, s *cluster.SnapshotTaken) (messageType, string) {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var kind messageType
	var answer []byte
	eventually(t, "the voter has judged", func() bool {
		kind, answer, err = l.snap.answer(from, message{kind: msgPropose, payload: b})
		return err != nil || kind != msgLater
	})
	if err != nil {
		return msgSorry, err.Error()
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
	good := &cluster.SnapshotTaken{Term: 1}
	good.Heads, good.Forks = a.signedCut()
	st, _, clock, err := a.snap.foldTo(t.Context(), good)
	if err != nil {
		t.Fatal(err)
	}
	good.Clock = clock
	if _, err := a.snap.fill(good, st); err != nil {
		t.Fatal(err)
	}
	good.ID = snapshot.ID(testCluster, good)
	for name, tc := range map[string]struct {
		from   cluster.NodeID
		change func(*cluster.SnapshotTaken)
		says   string
	}{
		"state":      {"a", func(s *cluster.SnapshotTaken) { s.State[3]++ }, "folds the same events to state"},
		"bytes":      {"a", func(s *cluster.SnapshotTaken) { s.Sum[3]++ }, "folds the same events to state"},
		"clock":      {"a", func(s *cluster.SnapshotTaken) { s.Clock++ }, "clock"},
		"hash":       {"a", func(s *cluster.SnapshotTaken) { s.Heads[0].Hash[0]++ }, "in the cut"},
		"not holder": {"c", func(*cluster.SnapshotTaken) {}, "not its own"},
		"wrong term": {"a", func(s *cluster.SnapshotTaken) { s.Term = 2 }, "not its own"},
		"garbled":    {"a", func(s *cluster.SnapshotTaken) { s.Heads = nil }, "cut of 0 sources"},
		"unknown fork": {"a", func(s *cluster.SnapshotTaken) {
			s.Forks = []cluster.SourceFork{{Source: cluster.SourceID{Node: "z", Inc: 1}, Seq: 1}}
		}, ""},
	} {
		bad := resigned(good, tc.change)
		if name == "unknown fork" {
			// Its proof may yet come: the voter does not answer for good.
			b.snap.mu.Lock()
			b.snap.asked = nil
			b.snap.mu.Unlock()
			kind, _, err := b.snap.answer("a", message{kind: msgPropose, payload: mustJSON(t, bad)})
			if err != nil || kind != msgLater {
				t.Errorf("%s: %d, %v", name, kind, err)
			}
			continue
		}
		if kind, text := propose(t, b, tc.from, bad); kind != msgRefused && kind != msgSorry || !strings.Contains(text, tc.says) {
			t.Errorf("%s: answer %d: %.200q, want %q", name, kind, text, tc.says)
		}
		b.snap.mu.Lock()
		b.snap.asked = nil
		b.snap.mu.Unlock()
	}
	if b.Snapshots().Mismatch == "" {
		t.Error("a state that differs is no alarm")
	}
	promised.Store(2)
	if kind, text := propose(t, b, "a", good); kind != msgRefused || !strings.Contains(text, "promised term 2") {
		t.Errorf("after a promise: %d, %q", kind, text)
	}
	promised.Store(1)
	b.snap.mu.Lock()
	b.snap.asked = nil
	b.snap.mu.Unlock()
	kind, sig := propose(t, b, "a", good)
	if kind != msgSigned || !snapshot.Signed(testCluster, good.ID, cluster.Signature{Node: "b", Sig: []byte(sig)}, pubFor("b")) {
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
	forged := &cluster.SnapshotTaken{Term: 1}
	forged.Heads, _ = a.signedCut()
	st, _, clock, err := a.snap.foldTo(t.Context(), forged)
	if err != nil {
		t.Fatal(err)
	}
	forged.Clock = clock
	if _, err := a.snap.fill(forged, st); err != nil {
		t.Fatal(err)
	}
	lone := resigned(forged, func(*cluster.SnapshotTaken) {}, "c")
	other := resigned(forged, func(s *cluster.SnapshotTaken) { s.State[0]++ }, "a", "b", "c")
	for _, body := range []any{lone, other, cluster.SnapshotTaken{ID: cluster.Hash{3}}} {
		mustAppend(t, c, cluster.Draft{Kind: cluster.KindSnapshot, Body: body})
	}
	for id, l := range tr.logs {
		eventually(t, "refusals on "+string(id), func() bool {
			l.snap.mu.Lock()
			defer l.snap.mu.Unlock()
			return l.snap.refused[lone.ID] != "" && l.snap.refused[other.ID] != "" && len(l.snap.noted) == 0
		})
		if len(l.Snapshots().Kept) != 0 || l.Snapshots().Mismatch == "" {
			t.Fatalf("%s: %+v", id, l.Snapshots())
		}
	}
	tr.level(t, mustSnapshot(t, a).ID)
}
