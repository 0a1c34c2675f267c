package eventlog

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/eventlog/wire"
	"github.com/skein-project/skein/eventlog/wire/wiretest"
)

// lives runs a host until it has written before events, and then twice from
// the same disk: the two logs share a beginning, and one key signs both.
func lives(t *testing.T, nw *network, node cluster.NodeID, before int) (first, second *Log) {
	t.Helper()
	o := testOptions(t.TempDir(), node)
	o.Dial = nw.dialer(node)
	l, stop := start(t, o)
	for i := range before {
		mustAppend(t, l, note(i))
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	oo := o
	oo.Dir = copyDir(t, o.Dir)
	first, _ = start(t, o)
	second, _ = start(t, oo)
	return first, second
}

// follow lets to pull from a log that the network calls node.
func follow(t *testing.T, nw *network, to *Log, node cluster.NodeID, from *Log) error {
	t.Helper()
	nw.add(node, from)
	return to.Sync(t.Context(), node)
}

// TestForkIsProvenAndEndsTheSource has two hosts that hold different histories
// of one source, each of its length. They learn of the fork where it is
// found or by hearsay, and then both, and one that saw neither, have the same
// state.
func TestForkIsProvenAndEndsTheSource(t *testing.T) {
	for name, more := range map[string]int{"shorter": 10, "as long": 20, "longer": 30} {
		t.Run(name, func(t *testing.T) {
			nw := newNetwork(t)
			type told struct {
				fork  wire.Fork
				found bool
			}
			news := make(chan told, 8)
			finder := testOptions(t.TempDir(), "b")
			finder.OnEquivocation = func(f wire.Fork, found bool) { news <- told{f, found} }
			b := nw.join(t, finder)
			c := nw.join(t, testOptions(t.TempDir(), "c"))
			d := nw.join(t, testOptions(t.TempDir(), "d"))
			one, two := lives(t, nw, "a", 7)
			for i := range 20 {
				mustAppend(t, two, note(i), note(100+i))
			}
			for i := range more {
				mustAppend(t, one, note(200+i), note(300+i))
			}
			// The finder is the one who holds less, or as much.
			mine, theirs := one, two
			if more > 20 {
				mine, theirs = two, one
			}
			for l, from := range map[*Log]*Log{b: mine, c: theirs} {
				if err := follow(t, nw, l, "a", from); err != nil {
					t.Fatal(err)
				}
			}
			if b.Digest() == c.Digest() || stateHash(b) == stateHash(c) {
				t.Fatal("nothing to disagree about")
			}
			nw.setDown("a", true)
			if err := b.Sync(t.Context(), "c"); !errors.Is(err, store.ErrEquivocation) {
				t.Fatalf("second history: %v, want store.ErrEquivocation", err)
			}
			want := wire.Fork{Source: one.Source(), Seq: 8, Prev: hashOf(t, one, 7)}
			if got := <-news; !got.found || got.fork != want {
				t.Fatalf("told of %+v, want %+v", got, want)
			}
			for _, l := range []*Log{c, d} { // by hearsay
				if err := l.Sync(t.Context(), "b"); err != nil {
					t.Fatal(err)
				}
			}
			if err := b.Sync(t.Context(), "c"); err != nil {
				t.Fatalf("again: %v", err)
			}
			for _, l := range []*Log{b, c, d} {
				if got := l.Forks(); len(got) != 1 || got[0] != want {
					t.Fatalf("%s knows of %v", l.o.Self, got)
				}
				if l.Digest() != b.Digest() || stateHash(l) != stateHash(b) {
					t.Fatalf("%s disagrees with b", l.o.Self)
				}
				if got := l.Cut().Seq(want.Source); got != 7 {
					t.Fatalf("cut of %s at %d of the forked source, want 7", l.o.Self, got)
				}
				if report, err := l.Verify(t.Context(), nil); err != nil || report.StateHash != stateHash(l) || len(report.Forks) != 1 {
					t.Fatalf("verify %s: %+v, %v", l.o.Self, report, err)
				}
			}
			if len(news) > 0 {
				t.Fatalf("told of it twice: %v", <-news)
			}
			// What the liar adds changes nothing, nor does it end what others do.
			nw.setDown("a", false)
			mustAppend(t, one, acting(1, 999))
			if err := follow(t, nw, b, "a", one); err != nil {
				t.Fatal(err)
			}
			mustAppend(t, b, note(1))
			if err := c.Sync(t.Context(), "b"); err != nil || c.Digest() != b.Digest() || stateHash(c) != stateHash(b) {
				t.Fatalf("after the fork: %v", err)
			}
		})
	}
}

func hashOf(t *testing.T, l *Log, seq uint64) cluster.Hash {
	t.Helper()
	h, ok := hashAt(l, l.Source(), seq)
	if !ok {
		t.Fatalf("no event %d", seq)
	}
	return h
}

// TestForkOutlivesARestart opens the log of a host that knows of a fork again:
// it still counts, and the host that lied leaves its chain when it hears of it.
func TestForkOutlivesARestart(t *testing.T) {
	nw := newNetwork(t)
	bo := testOptions(t.TempDir(), "b")
	bo.Dial = nw.dialer("b")
	b, stop := start(t, bo)
	one, two := lives(t, nw, "a", 3)
	mustAppend(t, one, acting(1, 1))
	mustAppend(t, two, acting(1, 2))
	if err := follow(t, nw, b, "a", one); err != nil {
		t.Fatal(err)
	}
	if err := follow(t, nw, b, "a", two); !errors.Is(err, store.ErrEquivocation) {
		t.Fatal(err)
	}
	want, hash := b.Digest(), stateHash(b)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	b, _ = start(t, bo)
	nw.add("b", b)
	if b.Digest() != want || stateHash(b) != hash || len(b.Forks()) != 1 {
		t.Fatalf("after the restart: forks %v", b.Forks())
	}
	if err := two.Sync(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if two.Source().Inc != 2 || len(two.Forks()) != 1 || stateHash(two) != hash {
		t.Fatalf("the liar goes on as %s, forks %v", two.Source(), two.Forks())
	}
}

// TestLowestForkCounts: a source that lies twice has no say from the first lie
// on, also where the second was found first.
func TestLowestForkCounts(t *testing.T) {
	nw := newNetwork(t)
	b := nw.join(t, testOptions(t.TempDir(), "b"))
	c := nw.join(t, testOptions(t.TempDir(), "c"))
	d := nw.join(t, testOptions(t.TempDir(), "d"))
	e := nw.join(t, testOptions(t.TempDir(), "e"))
	o := testOptions(t.TempDir(), "a")
	l, stop := start(t, o)
	mustAppend(t, l, note(1))
	mustAppend(t, l, note(2))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	early := o
	early.Dir = copyDir(t, o.Dir)
	l, stop = start(t, o)
	mustAppend(t, l, note(3))
	mustAppend(t, l, note(4))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	late := o
	late.Dir = copyDir(t, o.Dir)
	main, _ := start(t, o)
	other, _ := start(t, late)
	low, _ := start(t, early)
	for i := range 3 {
		mustAppend(t, main, acting(1, i))
		mustAppend(t, other, acting(1, 10+i))
		mustAppend(t, low, acting(1, 20+i))
		mustAppend(t, low, acting(1, 30+i))
	}
	for l, from := range map[*Log]*Log{b: main, c: other, d: low, e: low} {
		if err := follow(t, nw, l, "a", from); err != nil {
			t.Fatal(err)
		}
	}
	nw.setDown("a", true)
	if err := b.Sync(t.Context(), "c"); !errors.Is(err, store.ErrEquivocation) || b.Forks()[0].Seq != 5 {
		t.Fatalf("late fork: %v, %v", err, b.Forks())
	}
	for range 3 { // d takes the late fork by hearsay and finds the early one
		for _, l := range []*Log{d, b, c, e} {
			for _, from := range []cluster.NodeID{"b", "c", "d", "e"} {
				if from == l.o.Self {
					continue
				}
				if err := l.Sync(t.Context(), from); err != nil && !errors.Is(err, store.ErrEquivocation) {
					t.Fatal(err)
				}
			}
		}
	}
	for _, l := range []*Log{b, c, d, e} {
		if f := l.Forks(); len(f) != 1 || f[0].Seq != 3 || l.Digest() != b.Digest() || stateHash(l) != stateHash(b) {
			t.Fatalf("%s: forks %v", l.o.Self, f)
		}
	}
}

// proofOf makes a proof against a at its second event.
func proofOf(t testing.TB) wire.Proof {
	src := event.SourceID{Node: "a", Inc: 1}
	return wire.Proof{A: bodyRun(t, src, `{"x":1}`, "a"), B: bodyRun(t, src, `{"x":2}`, "a")}
}

// bodyRun makes a run of one event, the second of src, signed by key.
func bodyRun(t testing.TB, src event.SourceID, body string, key cluster.NodeID) []byte {
	t.Helper()
	e := event.Event{Source: src, Seq: 2, HLC: 9, Kind: event.KindHostStarted, Body: []byte(body)}
	b, _ := wiretest.Run(t, testCluster, keyFor(key), cluster.Hash{1}, e)
	return b
}

// hearsay has l ask a peer that knows of one fork, with this proof.
func hearsay(t testing.TB, nw *network, l *Log, f wire.Fork, p wire.Proof) error {
	t.Helper()
	enc, err := p.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	nw.mu.Lock()
	nw.answer["x"] = func(c net.Conn) {
		for {
			m, err := wire.ReadMessage(c)
			if err != nil {
				return
			}
			switch m.Kind {
			case wire.MsgHeads:
				err = wire.WriteMessage(c, wire.MsgHeadsAre, []byte{0, 0, 0, 0})
			case wire.MsgForks:
				err = wire.WriteMessage(c, wire.MsgForksAre, wire.AppendForks(nil, []wire.Fork{f}))
			case wire.MsgProof:
				err = wire.WriteMessage(c, wire.MsgProofIs, enc)
			}
			if err != nil {
				return
			}
		}
	}
	nw.mu.Unlock()
	return l.Sync(t.Context(), "x")
}

// TestForgedProofs: nobody can be made a liar without its key.
func TestForgedProofs(t *testing.T) {
	src := event.SourceID{Node: "a", Inc: 1}
	good := proofOf(t)
	if f, err := good.Verify(testCluster, pubFor("a")); err != nil || f.Seq != 2 || f.Source != src || f.Prev != (cluster.Hash{1}) {
		t.Fatalf("%+v, %v", f, err)
	}
	for name, p := range map[string]wire.Proof{
		"the same twice":    {A: good.A, B: good.A},
		"signed by another": {A: good.A, B: bodyRun(t, src, `{"x":2}`, "b")},
		"another source":    {A: good.A, B: bodyRun(t, event.SourceID{Node: "a", Inc: 2}, `{"x":2}`, "a")},
		"another place":     {A: good.A, B: signedRun(t, src, 1, cluster.Hash{}, "a")},
		"another past":      {A: good.A, B: signedRun(t, src, 2, cluster.Hash{9}, "a")},
		"without head":      {A: good.A, B: good.B[:len(good.B)-140]},
		"empty":             {},
	} {
		if _, err := p.Verify(testCluster, pubFor("a")); !errors.Is(err, wire.ErrPeer) {
			t.Errorf("%s: %v, want wire.ErrPeer", name, err)
		}
		nw := newNetwork(t)
		l := nw.join(t, testOptions(t.TempDir(), "c"))
		if err := hearsay(t, nw, l, wire.Fork{Source: src, Seq: 2, Prev: cluster.Hash{1}}, p); !errors.Is(err, wire.ErrPeer) || len(l.Forks()) != 0 {
			t.Errorf("%s: %v, forks %v", name, err, l.Forks())
		}
		if n := refused(t, l, "proof"); n != 1 {
			t.Errorf("%s: counted %v times", name, n)
		}
	}
	if _, err := good.Verify("other-cluster", pubFor("a")); err == nil {
		t.Error("a proof of another cluster holds")
	}
}

// TestPeerWithBadProofs lets a peer name forks that it cannot prove: the stream
// ends, the source keeps its word, and other peers go on.
func TestPeerWithBadProofs(t *testing.T) {
	src := event.SourceID{Node: "a", Inc: 1}
	enc := func(p wire.Proof) []byte {
		b, err := p.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	good := proofOf(t)
	fork := wire.Fork{Source: src, Seq: 2, Prev: cluster.Hash{1}}
	for name, answers := range map[string][2][]byte{
		"garbage list":     {{1, 2, 3}, nil},
		"endless list":     {{255, 255, 255, 255}, nil},
		"list with seq 0":  {wire.AppendForks(nil, []wire.Fork{{Source: src}}), nil},
		"list twice":       {wire.AppendForks(nil, []wire.Fork{fork, fork}), nil},
		"garbage proof":    {wire.AppendForks(nil, []wire.Fork{fork}), []byte("proof")},
		"cut proof":        {wire.AppendForks(nil, []wire.Fork{fork}), enc(good)[:40]},
		"trailing bytes":   {wire.AppendForks(nil, []wire.Fork{fork}), append(enc(good), 0)},
		"forged":           {wire.AppendForks(nil, []wire.Fork{fork}), enc(wire.Proof{A: good.A, B: bodyRun(t, src, `{}`, "b")})},
		"of another place": {wire.AppendForks(nil, []wire.Fork{{Source: src, Seq: 1}}), enc(good)},
	} {
		t.Run(name, func(t *testing.T) {
			nw := newNetwork(t)
			l := nw.join(t, testOptions(t.TempDir(), "c"))
			honest := nw.join(t, testOptions(t.TempDir(), "d"))
			mustAppend(t, honest, note(1))
			nw.answer["b"] = func(c net.Conn) {
				for {
					m, err := wire.ReadMessage(c)
					if err != nil {
						return
					}
					switch m.Kind {
					case wire.MsgHeads:
						err = wire.WriteMessage(c, wire.MsgHeadsAre, []byte{0, 0, 0, 0})
					case wire.MsgForks:
						err = wire.WriteMessage(c, wire.MsgForksAre, answers[0])
					case wire.MsgProof:
						err = wire.WriteMessage(c, wire.MsgProofIs, answers[1])
					}
					if err != nil {
						return
					}
				}
			}
			if err := l.Sync(t.Context(), "b"); !errors.Is(err, wire.ErrPeer) {
				t.Fatalf("%v, want wire.ErrPeer", err)
			}
			if name != "of another place" && len(l.Forks()) != 0 {
				t.Fatalf("believes %v", l.Forks())
			}
			if err := l.Sync(t.Context(), "d"); err != nil || l.Head(honest.Source()).Seq != 1 {
				t.Fatalf("an honest peer: %v", err)
			}
		})
	}
}

// TestRottenProofIsNotBelieved damages the kept proof: the log opens without
// it, verify names it, and the next peer brings it back.
func TestRottenProofIsNotBelieved(t *testing.T) {
	nw := newNetwork(t)
	b := nw.join(t, testOptions(t.TempDir(), "b"))
	co := testOptions(t.TempDir(), "c")
	co.Dial = nw.dialer("c")
	c, stop := start(t, co)
	for _, l := range []*Log{b, c} {
		if err := hearsay(t, nw, l, wire.Fork{Source: event.SourceID{Node: "a", Inc: 1}, Seq: 2, Prev: cluster.Hash{1}}, proofOf(t)); err != nil {
			t.Fatal(err)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(co.Dir, segment.ProofDir, "a.1.proof")
	enc, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	rotten := bytes.Clone(enc)
	rotten[len(rotten)/2] ^= 4
	if err := os.WriteFile(name, rotten, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := audit.Verify(t.Context(), audit.VerifyOptions{Dir: co.Dir, Cluster: testCluster, KeyOf: pubFor}); err == nil {
		t.Fatal("verify finds nothing")
	}
	c, _ = start(t, co)
	if len(c.Forks()) != 0 {
		t.Fatal("believed")
	}
	if err := c.Sync(t.Context(), "b"); err != nil || len(c.Forks()) != 1 || c.Digest() != b.Digest() {
		t.Fatalf("brought back: %v, %v", c.Forks(), err)
	}
	if now, err := os.ReadFile(name); err != nil || !bytes.Equal(now, enc) {
		t.Fatalf("the proof was not mended: %v", err)
	}
}

// TestForkedSourcesAreBounded: a host that forks more chains than the log knows
// of costs no more.
func TestForkedSourcesAreBounded(t *testing.T) {
	nw := newNetwork(t)
	l := nw.join(t, testOptions(t.TempDir(), "c"))
	for inc := range uint64(wire.MaxForks + 1) {
		src := event.SourceID{Node: "a", Inc: inc + 1}
		proof := wire.Proof{A: bodyRun(t, src, `{"x":1}`, "a"), B: bodyRun(t, src, `{"x":2}`, "a")}
		err := hearsay(t, nw, l, wire.Fork{Source: src, Seq: 2, Prev: cluster.Hash{1}}, proof)
		if full := inc == wire.MaxForks; full != errors.Is(err, wire.ErrPeer) {
			t.Fatalf("fork %d: %v", inc, err)
		}
	}
	if len(l.Forks()) != wire.MaxForks {
		t.Fatalf("%d forks", len(l.Forks()))
	}
}
