package eventlog

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/replicate"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/eventlog/wire"
	"github.com/skein-project/skein/eventlog/wire/wiretest"
)

// trio is three voters with their promised terms.
type trio struct {
	net      *network
	logs     map[cluster.NodeID]*Log
	promised map[cluster.NodeID]*atomic.Uint64
	lease    atomic.Bool // what MayAct of a answers
}

func newTrio(t *testing.T, cfg cluster.VoterConfig, change func(*Options)) *trio {
	t.Helper()
	tr := &trio{net: newNetwork(t), logs: map[cluster.NodeID]*Log{}, promised: map[cluster.NodeID]*atomic.Uint64{}}
	tr.lease.Store(true)
	for _, id := range []cluster.NodeID{"a", "b", "c"} {
		o := testOptions(t.TempDir(), id)
		term := &atomic.Uint64{}
		o.Promised = func() cluster.Term { return cluster.Term(term.Load()) }
		o.MayAct = func(cluster.Term) bool { return tr.lease.Load() }
		o.IOTimeout = 2 * time.Second
		if change != nil {
			change(&o)
		}
		tr.promised[id] = term
		tr.logs[id] = tr.net.join(t, o)
		tr.logs[id].SetVoters(cfg)
	}
	return tr
}

func waitStable(t *testing.T, l *Log, seq uint64, d time.Duration) (int, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return l.WaitStable(ctx, seq)
}

func TestReplicateAndStability(t *testing.T) {
	tr := newTrio(t, voters("a", "b", "c"), nil)
	a, b, c := tr.logs["a"], tr.logs["b"], tr.logs["c"]
	e := mustAppend(t, a, note(1), acting(1, 2))
	if n, err := waitStable(t, a, 2, patience); err != nil || n < 2 {
		t.Fatalf("stable on %d, %v; want at least 2", n, err)
	}
	for _, l := range []*Log{b, c} {
		eventually(t, "the push arrives", func() bool { return l.Head(e[0].Source).Seq == 2 })
	}
	if stateHash(a) != stateHash(b) || a.Digest() != c.Digest() {
		t.Fatal("states differ")
	}
	tr.net.setDown("c", true)
	e = mustAppend(t, a, acting(1, 3))
	if n, err := waitStable(t, a, e[0].Seq, patience); err != nil || n != 2 {
		t.Fatalf("one voter down: stable on %d, %v; want 2", n, err)
	}
	if n := metric(t, a, "stable_seq"); n != 3 {
		t.Fatalf("stable seq %v, want 3", n)
	}
	tr.net.setDown("b", true)
	e = mustAppend(t, a, acting(1, 4))
	if n, err := waitStable(t, a, e[0].Seq, 50*time.Millisecond); !errors.Is(err, replicate.ErrUnknown) {
		t.Fatalf("alone: stable on %d, %v; want replicate.ErrUnknown", n, err)
	}
	tr.net.setDown("b", false)
	if n, err := waitStable(t, a, e[0].Seq, patience); err != nil || n != 2 {
		t.Fatalf("after the voter returned: %d, %v", n, err)
	}
	// What c missed arrives when it returns.
	tr.net.setDown("c", false)
	if err := c.Wait(t.Context(), e[0].Source, e[0].Seq); err != nil {
		t.Fatal(err)
	}
}

func TestSingleAndAvailableModes(t *testing.T) {
	l, _ := start(t, testOptions(t.TempDir(), "a"))
	e := mustAppend(t, l, note(1))
	if _, err := waitStable(t, l, e[0].Seq, 20*time.Millisecond); !errors.Is(err, replicate.ErrUnknown) {
		t.Fatalf("without a voter config: %v, want replicate.ErrUnknown", err)
	}
	l.SetVoters(voters("a"))
	if n, err := waitStable(t, l, e[0].Seq, patience); err != nil || n != 1 {
		t.Fatalf("single: %d, %v", n, err)
	}
	tr := newTrio(t, voters("a", "b"), nil)
	a := tr.logs["a"]
	eventually(t, "the voters are connected", func() bool {
		n, err := waitStable(t, a, mustAppend(t, a, note(1))[0].Seq, patience)
		return err == nil && n == 2
	})
	e = mustAppend(t, a, acting(1, 1))
	if n, err := waitStable(t, a, e[0].Seq, patience); err != nil || n != 2 {
		t.Fatalf("available, both up: %d, %v; want 2", n, err)
	}
	tr.net.setDown("b", true)
	e = mustAppend(t, a, acting(1, 2))
	if n, err := waitStable(t, a, e[0].Seq, patience); err != nil || n != 1 {
		t.Fatalf("available, one down: %d, %v; want 1", n, err)
	}
}

func TestRefusedAcknowledgementsDoNotCount(t *testing.T) {
	tr := newTrio(t, voters("a", "b", "c"), nil)
	a := tr.logs["a"]
	tr.promised["b"].Store(2)
	tr.promised["c"].Store(2)
	e := mustAppend(t, a, acting(1, 1))
	if n, err := waitStable(t, a, e[0].Seq, patience); !errors.Is(err, replicate.ErrUnknown) || !errors.Is(err, replicate.ErrRefused) {
		t.Fatalf("term 1 after a majority promised 2: %d, %v; want refused", n, err)
	}
	// Both hold it all the same, and what comes later in term 2 counts.
	later := mustAppend(t, a, acting(2, 2))
	if n, err := waitStable(t, a, later[0].Seq, patience); err != nil || n < 2 {
		t.Fatalf("term 2: %d, %v", n, err)
	}
	if n, err := waitStable(t, a, e[0].Seq, patience); !errors.Is(err, replicate.ErrUnknown) {
		t.Fatalf("term 1 below a stable event: %d, %v; want replicate.ErrUnknown", n, err)
	}
}

func TestLostLeaseEndsTheWait(t *testing.T) {
	tr := newTrio(t, voters("a", "b", "c"), nil)
	tr.net.setDown("a", true)
	e := mustAppend(t, tr.logs["a"], acting(1, 1))
	tr.lease.Store(false)
	if _, err := waitStable(t, tr.logs["a"], e[0].Seq, patience); !errors.Is(err, replicate.ErrUnknown) || errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("lease lost: %v, want replicate.ErrUnknown at once", err)
	}
}

func TestCatchUpNeedsPromisesOfAMajority(t *testing.T) {
	tr := newTrio(t, voters("a", "b", "c"), nil)
	a, b := tr.logs["a"], tr.logs["b"]
	tr.net.setDown("c", true)
	var last uint64
	for i := range 50 {
		last = mustAppend(t, a, acting(1, i))[0].Seq
	}
	if _, err := waitStable(t, a, last, patience); err != nil {
		t.Fatal(err)
	}
	// a dies; c, which missed everything, takes over with b's promise.
	tr.net.setDown("a", true)
	tr.net.setDown("c", false)
	c := tr.logs["c"]
	granters := []cluster.NodeID{"b", "c"}
	tr.promised["c"].Store(2)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := c.CatchUp(ctx, 2, granters, 2); !errors.Is(err, replicate.ErrRefused) {
		t.Fatalf("caught up before b promised: %v", err)
	}
	if _, err := c.HeadsOf(t.Context(), "b", 2); !errors.Is(err, replicate.ErrRefused) {
		t.Fatalf("heads before the promise: %v, want replicate.ErrRefused", err)
	}
	tr.promised["b"].Store(2)
	if err := c.CatchUp(t.Context(), 2, granters, 2); err != nil {
		t.Fatal(err)
	}
	if got := c.Cut().Seq(a.Source()); got != last || c.Digest() != b.Digest() {
		t.Fatalf("caught up to %d of a, want %d", got, last)
	}
}

// TestAbstainingVoterVouchesForNothing has a voter that forgot what it promised:
// it stores what is pushed and shows what it holds, but neither makes an event
// stable nor counts when a new holder catches up, since its disk may lack what
// it acknowledged before.
func TestAbstainingVoterVouchesForNothing(t *testing.T) {
	tr := newTrio(t, voters("a", "b", "c"), nil)
	a, c := tr.logs["a"], tr.logs["c"]
	tr.promised["b"].Store(uint64(replicate.Abstaining))
	tr.net.setDown("c", true)
	e := mustAppend(t, a, acting(1, 1))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := a.WaitStable(ctx, e[0].Seq); !errors.Is(err, replicate.ErrUnknown) {
		t.Fatalf("stable by the word of a voter that abstains: %v", err)
	}
	eventually(t, "b holds it all the same", func() bool { return tr.logs["b"].Head(a.Source()).Seq == e[0].Seq })
	if heads, err := a.HeadsOf(t.Context(), "b", 0); err != nil || len(heads) == 0 {
		t.Fatalf("what it holds: %v, %v", heads, err)
	}
	tr.net.setDown("a", true)
	tr.net.setDown("c", false)
	tr.promised["c"].Store(2)
	ctx, cancel = context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := c.CatchUp(ctx, 2, []cluster.NodeID{"a", "b", "c"}, 2); !errors.Is(err, replicate.ErrRefused) {
		t.Fatalf("caught up by a voter that abstains: %v", err)
	}
}

func TestPullFillsWhatIsMissing(t *testing.T) {
	net := newNetwork(t)
	var logs []*Log
	for _, id := range []cluster.NodeID{"a", "b", "d"} {
		o := testOptions(t.TempDir(), id)
		o.SegmentSize = 8192
		if id == "d" { // no voter: pulls by itself, from b only
			o.PullEvery = 10 * time.Millisecond
			o.Peers = func() []cluster.NodeID { return []cluster.NodeID{"b"} }
		}
		logs = append(logs, net.join(t, o))
	}
	for i := range 300 {
		mustAppend(t, logs[0], note(i))
	}
	if err := logs[1].Sync(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	// d gets a's chain through b: the signature is what counts.
	eventually(t, "d has all", func() bool { return logs[2].Digest() == logs[0].Digest() })
	if stateHash(logs[2]) != stateHash(logs[0]) {
		t.Fatal("states differ")
	}
	report, err := logs[2].Verify(t.Context(), nil)
	if err != nil || report.Events != 300 || report.Heads == 0 || report.Unchecked != 0 {
		t.Fatalf("verify the copy: %+v, %v", report, err)
	}
}

func TestOwnChainLongerElsewhereStartsNewIncarnation(t *testing.T) {
	net := newNetwork(t)
	ao := testOptions(t.TempDir(), "a")
	ao.Dial = net.dialer("a")
	a, stop := start(t, ao)
	net.add("a", a)
	b := net.join(t, testOptions(t.TempDir(), "b"))
	mustAppend(t, a, note(1))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	old := copyDir(t, ao.Dir)
	a, stop = start(t, ao)
	net.add("a", a)
	mustAppend(t, a, note(2), note(3))
	if err := b.Sync(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	ao.Dir = old // the disk is rolled back
	a, _ = start(t, ao)
	net.add("a", a)
	if n, err := a.CheckOwnHead(t.Context(), []cluster.NodeID{"a", "b"}); n != 1 || err != nil {
		t.Fatalf("asked %d, %v", n, err)
	}
	if got := a.Source(); got.Inc != 2 {
		t.Fatalf("own chain %s, want incarnation 2", got)
	}
	e := mustAppend(t, a, note(4))
	if e[0].Seq != 2 || e[0].Source.Inc != 2 {
		t.Fatalf("appended %+v", e[0])
	}
	for first, err := range a.Read(e[0].Source, 1) {
		var link event.Incarnation
		if err != nil || first.Kind != event.KindIncarnation || json.Unmarshal(first.Body, &link) != nil ||
			link.Previous.Source.Inc != 1 || link.Previous.Seq != 1 || link.Previous.Hash.IsZero() || link.Reason == "" {
			t.Fatalf("the new chain begins with %s %s, %v", first.Kind, first.Body, err)
		}
		break
	}
	for _, err := range []error{a.Sync(t.Context(), "b"), b.Sync(t.Context(), "a")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if a.Digest() != b.Digest() || a.Head(event.SourceID{Node: "a", Inc: 1}).Seq != 3 {
		t.Fatal("the old chain did not come back whole")
	}
}

// TestUnreadableOwnChainIsNotLeft: a host whose disk cannot be read for a while
// does not know whether others know more of its chain, so it stays with it.
func TestUnreadableOwnChainIsNotLeft(t *testing.T) {
	net := newNetwork(t)
	ffs := quickFS()
	ao := testOptions(t.TempDir(), "a")
	ao.FS = ffs
	a := net.join(t, ao)
	b := net.join(t, testOptions(t.TempDir(), "b"))
	mustAppend(t, a, note(1))
	if err := b.Sync(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, a, note(2)) // b's head is below a's: to compare them takes a look at the disk
	ffs.set(func(op string, _ int) error {
		if op == "open" {
			return syscall.EMFILE
		}
		return nil
	})
	if err := a.Sync(t.Context(), "b"); !errors.Is(err, syscall.EMFILE) {
		t.Fatalf("own chain compared although it cannot be read: %v", err)
	}
	if _, err := a.CheckOwnHead(t.Context(), []cluster.NodeID{"b"}); !errors.Is(err, syscall.EMFILE) {
		t.Fatalf("own head checked although it cannot be read: %v", err)
	}
	if a.Source().Inc != 1 {
		t.Fatalf("goes on as %s", a.Source())
	}
	ffs.set(nil)
	if _, err := a.CheckOwnHead(t.Context(), []cluster.NodeID{"b"}); err != nil || a.Source().Inc != 1 {
		t.Fatalf("later: %v", err)
	}
}

func TestFutureClockIsRefused(t *testing.T) {
	net := newNetwork(t)
	ao := testOptions(t.TempDir(), "a")
	ao.Wall = func() time.Time { return time.Now().Add(2 * time.Minute) }
	a := net.join(t, ao)
	b := net.join(t, testOptions(t.TempDir(), "b"))
	mustAppend(t, a, note(1))
	if err := b.Sync(t.Context(), "a"); !errors.Is(err, wire.ErrPeer) {
		t.Fatalf("event 2 min ahead: %v, want wire.ErrPeer", err)
	}
	if len(b.Heads()) != 0 {
		t.Fatal("stored")
	}
}

// TestBadPeers lets a voter answer with garbage, nothing, half a message or
// a lie; the log goes on with the other one.
func TestBadPeers(t *testing.T) {
	lie := func(kind wire.Type, payload []byte) func(net.Conn) {
		return func(c net.Conn) {
			br := bufio.NewReader(c)
			for {
				if _, err := wire.ReadMessage(br); err != nil {
					return
				}
				if wire.WriteMessage(c, kind, payload) != nil {
					return
				}
			}
		}
	}
	for name, answer := range map[string]func(net.Conn){
		"garbage": func(c net.Conn) {
			go drain(c)
			_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		},
		"closes":    func(net.Conn) {},
		"stalls":    drain,
		"torn":      func(c net.Conn) { go drain(c); _, _ = c.Write([]byte{0, 0, 0, 48, byte(wire.MsgAck), 1, 2}) },
		"huge":      func(c net.Conn) { go drain(c); _, _ = c.Write([]byte{255, 255, 255, 255, byte(wire.MsgAck)}) },
		"lies":      lie(wire.MsgAck, wire.Ack{Mark: event.Mark{Seq: 99}}.Encode()),
		"nonsense":  lie(wire.MsgRun, []byte("not a run")),
		"bad heads": lie(wire.MsgHeadsAre, []byte{0, 0, 255, 255}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTrio(t, voters("a", "b", "c"), func(o *Options) { o.IOTimeout = 100 * time.Millisecond })
			tr.net.mu.Lock()
			tr.net.answer["c"] = answer
			tr.net.mu.Unlock()
			tr.net.setDown("c", true) // ends the streams to the good c
			tr.net.setDown("c", false)
			a := tr.logs["a"]
			for i := range 20 {
				e := mustAppend(t, a, acting(1, i))
				if n, err := waitStable(t, a, e[0].Seq, patience); err != nil || n > 3 {
					t.Fatalf("stable on %d, %v", n, err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if err := a.Sync(ctx, "c"); err == nil {
				t.Error("sync with a bad peer succeeds")
			}
			if a.Source().Inc != 1 || len(a.Heads()) != 1 {
				t.Errorf("own chain %s, %d chains", a.Source(), len(a.Heads()))
			}
		})
	}
}

// TestServeRefusesGarbage sends bad questions and runs to a log.
func TestServeRefusesGarbage(t *testing.T) {
	l, _ := start(t, testOptions(t.TempDir(), "b"))
	src := event.SourceID{Node: "a", Inc: 1}
	frames := signedRun(t, src, 1, cluster.Hash{}, "a")
	gap := signedRun(t, src, 5, cluster.Hash{7}, "a")
	forged := signedRun(t, src, 1, cluster.Hash{}, "c")
	flipped := append([]byte(nil), frames...)
	flipped[40] ^= 1
	for name, m := range map[string]wire.Message{
		"unknown type": {Kind: 99, Payload: nil}, "answer as question": {Kind: wire.MsgAck, Payload: wire.Ack{}.Encode()}, "heads": {Kind: wire.MsgHeads, Payload: []byte{1}},
		"want": {Kind: wire.MsgWant, Payload: []byte{200, 1}}, "position": {Kind: wire.MsgPosition, Payload: []byte{1, 'A', 0, 0, 0, 0, 0, 0, 0, 1}},
		"empty run": {Kind: wire.MsgPush, Payload: nil}, "gap": {Kind: wire.MsgPush, Payload: gap}, "forged": {Kind: wire.MsgPush, Payload: forged}, "flipped": {Kind: wire.MsgPush, Payload: flipped},
		"cut": {Kind: wire.MsgPush, Payload: frames[:len(frames)-3]}, "without head": {Kind: wire.MsgPush, Payload: frames[:60]},
		"own chain": {Kind: wire.MsgPush, Payload: signedRun(t, event.SourceID{Node: "b", Inc: 1}, 1, cluster.Hash{}, "b")},
	} {
		here, there := net.Pipe()
		done := make(chan struct{})
		go func() { l.Serve(t.Context(), "a", there); close(done) }()
		if err := here.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if err := wire.WriteMessage(here, m.Kind, m.Payload); err != nil {
			t.Fatal(err)
		}
		if got, err := wire.ReadMessage(here); err != nil || got.Kind != wire.MsgSorry {
			t.Errorf("%s: answer %d, %v; want a refusal", name, got.Kind, err)
		}
		<-done
		here.Close()
	}
	if len(l.Heads()) != 0 {
		t.Fatalf("stored %v", l.Heads())
	}
	if _, err := l.rep.Receive(t.Context(), frames); err != nil {
		t.Fatalf("the good run: %v", err)
	}
}

// signedRun makes a run of two events, signed by key.
func signedRun(t testing.TB, src event.SourceID, first uint64, prev cluster.Hash, key cluster.NodeID) []byte {
	t.Helper()
	events := make([]event.Event, 2)
	for i := range events {
		seq := first + uint64(i)
		events[i] = event.Event{Source: src, Seq: seq, HLC: cluster.HLC(seq), Kind: event.KindHostStarted, Body: []byte(`{}`)}
	}
	b, _ := wiretest.Run(t, testCluster, keyFor(key), prev, events...)
	return b
}

// drain reads c to its end.
func drain(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// TestForkOfOwnChainIsNoticed rolls a's disk back and lets it append before it
// can ask anyone: the first voter that it meets makes it leave the chain.
func TestForkOfOwnChainIsNoticed(t *testing.T) {
	net := newNetwork(t)
	var promised atomic.Uint64
	ao := testOptions(t.TempDir(), "a")
	ao.Promised = func() cluster.Term { return cluster.Term(promised.Load()) }
	a, stop := start(t, ao)
	mustAppend(t, a, note(1))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	old := copyDir(t, ao.Dir)
	a, stop = start(t, ao)
	net.add("a", a)
	bo := testOptions(t.TempDir(), "b")
	bo.Promised = ao.Promised
	b := net.join(t, bo)
	mustAppend(t, a, note(2))
	if err := b.Sync(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	ao.Dir = old
	a = net.join(t, ao)
	mustAppend(t, a, note(3), note(4), note(5))
	a.SetVoters(voters("a", "b"))
	eventually(t, "a leaves its chain", func() bool { return a.Source().Inc == 2 })
	e := mustAppend(t, a, note(6))
	if n, err := waitStable(t, a, e[0].Seq, patience); err != nil || n < 1 {
		t.Fatalf("stable on %d, %v", n, err)
	}
	if err := b.Wait(t.Context(), e[0].Source, 1); err != nil {
		t.Fatal(err)
	}
	// Both learn of the fork, and the events behind it count for neither.
	for range 2 {
		for l, from := range map[*Log]cluster.NodeID{a: "b", b: "a"} {
			if err := l.Sync(t.Context(), from); err != nil && !errors.Is(err, store.ErrEquivocation) {
				t.Fatal(err)
			}
		}
	}
	if len(a.Forks()) != 1 || a.Digest() != b.Digest() || stateHash(a) != stateHash(b) {
		t.Fatalf("forks known to a: %v, to b: %v; states %s and %s", a.Forks(), b.Forks(), stateHash(a), stateHash(b))
	}
	promised.Store(3)
	if err := b.CatchUp(t.Context(), 3, []cluster.NodeID{"a", "b"}, 2); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkAppendStable64(b *testing.B) {
	net := newNetwork(b)
	var a *Log
	for _, id := range []cluster.NodeID{"a", "b", "c"} {
		l := net.join(b, testOptions(b.TempDir(), id))
		l.SetVoters(voters("a", "b", "c"))
		if id == "a" {
			a = l
		}
	}
	var wg sync.WaitGroup
	work := make(chan struct{}, 64) // one token per append; full: the loop waits
	for range 64 {
		wg.Go(func() {
			for range work {
				e, err := a.Append(context.Background(), []event.Draft{draft300()})
				if err == nil {
					_, err = a.WaitStable(context.Background(), e[0].Seq)
				}
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	for b.Loop() {
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
