package eventlog

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/record"
)

// answers lets a peer answer each kind of question with the messages of one
// entry, the last one again and again; without one it says nothing.
type answers map[messageType][]message

func (a answers) serve(c net.Conn) {
	turn := map[messageType]int{}
	for {
		m, err := readMessage(c)
		if err != nil {
			return
		}
		list := a[m.kind]
		if len(list) == 0 {
			continue
		}
		reply := list[min(turn[m.kind], len(list)-1)]
		turn[m.kind]++
		if writeMessage(c, reply.kind, reply.payload) != nil {
			return
		}
	}
}

// headsAnswer is a heads answer, signed by key.
func headsAnswer(t testing.TB, key cluster.NodeID, heads ...cluster.Head) []message {
	t.Helper()
	for i := range heads {
		heads[i] = record.SignHead(testCluster, heads[i], keyFor(key))
	}
	b, err := record.AppendHeads(nil, heads)
	if err != nil {
		t.Fatal(err)
	}
	return []message{{msgHeadsAre, b}}
}

// chainRun makes a run of n events of src from first on, each later than the
// one before by step, and returns it with the mark of its end.
func chainRun(t testing.TB, src cluster.SourceID, first uint64, prev cluster.Hash, n int, at, step cluster.HLC) ([]byte, cluster.Mark) {
	t.Helper()
	c := &chain{src: src, tail: cluster.Mark{Seq: first - 1, Hash: prev}}
	c.begin()
	for i := range n {
		e := cluster.Event{
			Source: src, Seq: first + uint64(i), Prev: c.tail.Hash, HLC: at + cluster.HLC(i)*step,
			Kind: cluster.KindHostStarted, Body: []byte(`{}`),
		}
		c.add(e)
	}
	head := record.SignHead(testCluster, cluster.Head{Source: src, Seq: c.tail.Seq, Hash: c.tail.Hash}, keyFor(src.Node))
	if err := c.end(head); err != nil {
		t.Fatal(err)
	}
	return c.buf, c.tail
}

// TestHostilePeers lets a peer answer questions in every wrong way. The pull
// ends with an error, is counted by reason, stores nothing that is not
// proven, and an honest peer is pulled from all the same.
func TestHostilePeers(t *testing.T) {
	a := cluster.SourceID{Node: "a", Inc: 1}
	ten, mark := chainRun(t, a, 1, cluster.Hash{}, 10, 1, 1)
	more, _ := chainRun(t, a, 11, mark.Hash, 5, 100, 1)
	gap, _ := chainRun(t, a, 12, cluster.Hash{5}, 5, 100, 1)
	other, _ := chainRun(t, cluster.SourceID{Node: "e", Inc: 1}, 1, cluster.Hash{}, 10, 1, 1)
	future, _ := chainRun(t, a, 1, cluster.Hash{}, 10, cluster.NewHLC(time.Now().Add(2*time.Minute), 0), 1)
	back, _ := chainRun(t, a, 11, mark.Hash, 5, 3, 1)
	head := cluster.Head{Source: a, Seq: mark.Seq, Hash: mark.Hash}
	high := cluster.Head{Source: a, Seq: 1 << 40, Hash: cluster.Hash{8}}
	noForks := []message{{msgForksAre, appendForks(nil, nil)}}
	run := func(frames ...[]byte) []message {
		var out []message
		for _, f := range frames {
			out = append(out, message{msgRun, f})
		}
		return out
	}
	reordered := swapFrames(t, ten)
	for name, tc := range map[string]struct {
		reason string
		answer func(net.Conn)
	}{
		"garbage":          {"frame", func(c net.Conn) { go drain(c); _, _ = c.Write([]byte("\x00\x00\x00\x02\x0bxx")) }},
		"never answers":    {"timeout", drain},
		"never reads":      {"timeout", func(c net.Conn) { time.Sleep(time.Second) }},
		"a byte at a time": {"timeout", trickle},
		"huge message":     {"frame", func(c net.Conn) { go drain(c); _, _ = c.Write([]byte{255, 255, 255, 255, 11}) }},
		"another answer":   {"frame", answers{msgHeads: {{msgAck, ack{}.encode()}}}.serve},
		"heads that nobody signed": {"signature", answers{
			msgHeads: headsAnswer(t, "x", head), msgForks: noForks, msgWant: run(signedRun(t, a, 1, cluster.Hash{}, "x")),
		}.serve},
		"a head that it has not":     {"frame", answers{msgHeads: headsAnswer(t, "a", head), msgForks: noForks, msgWant: {{msgNothing, nil}}}.serve},
		"a head far beyond":          {"frame", answers{msgHeads: headsAnswer(t, "a", high), msgForks: noForks, msgWant: run(ten, ten)}.serve},
		"range of another chain":     {"frame", answers{msgHeads: headsAnswer(t, "a", head), msgForks: noForks, msgWant: run(other)}.serve},
		"range that does not follow": {"", answers{msgHeads: headsAnswer(t, "a", high), msgForks: noForks, msgWant: run(ten, gap)}.serve},
		"the same range again":       {"frame", answers{msgHeads: headsAnswer(t, "a", high), msgForks: noForks, msgWant: run(ten, ten)}.serve},
		"an empty range":             {"frame", answers{msgHeads: headsAnswer(t, "a", head), msgForks: noForks, msgWant: run(nil)}.serve},
		"reordered events":           {"chain", answers{msgHeads: headsAnswer(t, "a", head), msgForks: noForks, msgWant: run(reordered)}.serve},
		"flipped bit":                {"chain", answers{msgHeads: headsAnswer(t, "a", head), msgForks: noForks, msgWant: run(flip(ten, 60))}.serve},
		"events from the future":     {"clock", answers{msgHeads: headsAnswer(t, "a", head), msgForks: noForks, msgWant: run(future)}.serve},
		"a clock that goes back":     {"frame", answers{msgHeads: headsAnswer(t, "a", high), msgForks: noForks, msgWant: run(ten, back)}.serve},
		"ends in the middle":         {"", answers{msgHeads: headsAnswer(t, "a", high), msgForks: noForks, msgWant: {{msgRun, ten}, {msgSorry, []byte("no")}}}.serve},
		"stalls in the middle":       {"timeout", stallAfter(answers{msgHeads: headsAnswer(t, "a", high), msgForks: noForks, msgWant: run(ten, more)}, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nw := newNetwork(t)
			o := testOptions(t.TempDir(), "b")
			if tc.reason == "timeout" {
				o.IOTimeout = 200 * time.Millisecond
			}
			b := nw.join(t, o)
			honest := nw.join(t, testOptions(t.TempDir(), "d"))
			mustAppend(t, honest, note(1))
			nw.answer["c"] = tc.answer
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err := b.Sync(ctx, "c")
			if err == nil || ctx.Err() != nil {
				t.Fatalf("pull from a hostile peer: %v", err)
			}
			if n := b.Head(a).Seq; n != 0 && n != 10 && n != 15 {
				t.Errorf("%d events stored", n)
			}
			if hash, ok := b.hashAt(a, 10); ok && hash != mark.Hash {
				t.Error("stored what nobody signed")
			}
			if tc.reason != "" && refused(t, b, tc.reason) == 0 {
				t.Errorf("not counted as %s: %v", tc.reason, err)
			}
			if err := b.Sync(t.Context(), "d"); err != nil || b.Head(honest.Source()).Seq != 1 {
				t.Errorf("an honest peer after that: %v", err)
			}
			if _, err := b.Verify(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// trickle answers with a message that never ends.
func trickle(c net.Conn) {
	go drain(c)
	if _, err := c.Write([]byte{0, 0, 255, 0, byte(msgHeadsAre)}); err != nil {
		return
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if _, err := c.Write([]byte{0}); err != nil {
			return
		}
	}
}

// stallAfter answers so many questions and then none.
func stallAfter(a answers, n int) func(net.Conn) {
	return func(c net.Conn) {
		for range n {
			m, err := readMessage(c)
			if err != nil {
				return
			}
			if list := a[m.kind]; len(list) > 0 && writeMessage(c, list[0].kind, list[0].payload) != nil {
				return
			}
		}
		drain(c)
	}
}

func flip(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 16
	return b
}

// swapFrames exchanges the first two frames of a run.
func swapFrames(t testing.TB, b []byte) []byte {
	t.Helper()
	_, n, err := record.ParseFrame(b)
	if err != nil {
		t.Fatal(err)
	}
	_, m, err := record.ParseFrame(b[n:])
	if err != nil {
		t.Fatal(err)
	}
	return append(append(bytes.Clone(b[n:n+m]), b[:n]...), b[n+m:]...)
}

// TestHostileAskers asks in wrong ways: each stream ends, counted, within its
// deadline, and another one is served meanwhile.
func TestHostileAskers(t *testing.T) {
	within := func(limit time.Duration) *Log {
		o := testOptions(t.TempDir(), "b")
		o.IOTimeout = limit
		l, _ := start(t, o)
		mustAppend(t, l, note(1), note(2))
		return l
	}
	hasty, patient := within(50*time.Millisecond), within(patience)
	a := cluster.SourceID{Node: "a", Inc: 1}
	future, _ := chainRun(t, a, 1, cluster.Hash{}, 3, cluster.NewHLC(time.Now().Add(2*time.Minute), 0), 1)
	want := func(seq uint64) []byte { return binary.BigEndian.AppendUint64(appendSource(nil, hasty.Source()), seq) }
	for name, tc := range map[string]struct {
		reason string
		ask    func(net.Conn)
	}{
		"says nothing":        {"timeout", func(net.Conn) {}},
		"a byte at a time":    {"timeout", trickleQuestion},
		"half a message":      {"timeout", func(c net.Conn) { _, _ = c.Write([]byte{0, 0, 0, 99, byte(msgPush), 1}) }},
		"unknown question":    {"frame", func(c net.Conn) { _ = writeMessage(c, 77, nil) }},
		"huge question":       {"frame", func(c net.Conn) { _, _ = c.Write([]byte{200, 0, 0, 0, byte(msgPush)}) }},
		"mark cut short":      {"frame", func(c net.Conn) { _ = writeMessage(c, msgMark, want(1)[:9]) }},
		"proof of nothing":    {"frame", func(c net.Conn) { _ = writeMessage(c, msgProof, []byte{3, 'a'}) }},
		"run from the future": {"clock", func(c net.Conn) { _ = writeMessage(c, msgPush, future) }},
		"run nobody signed":   {"signature", func(c net.Conn) { _ = writeMessage(c, msgPush, signedRun(t, a, 1, cluster.Hash{}, "x")) }},
		"answers never read":  {"timeout", func(c net.Conn) { _ = writeMessage(c, msgWant, want(1)) }},
		"this host's own chain": {"frame", func(c net.Conn) {
			_ = writeMessage(c, msgPush, signedRun(t, patient.Source(), 3, cluster.Hash{1}, "b"))
		}},
	} {
		l := patient
		if tc.reason == "timeout" {
			l = hasty
		}
		before := refused(t, l, tc.reason)
		here, there := net.Pipe()
		done := make(chan struct{})
		go func() { l.Serve(t.Context(), "a", there); close(done) }()
		tc.ask(here)
		if name != "answers never read" {
			go drain(here)
		}
		select {
		case <-done:
		case <-time.After(patience):
			t.Fatalf("%s: the stream does not end", name)
		}
		here.Close()
		if refused(t, l, tc.reason) == before {
			t.Errorf("%s: not counted as %s", name, tc.reason)
		}
	}
	for _, l := range []*Log{hasty, patient} {
		if len(l.Heads()) != 1 || l.Err() != nil {
			t.Fatalf("stored %v, %v", l.Heads(), l.Err())
		}
	}
}

func trickleQuestion(c net.Conn) {
	if _, err := c.Write([]byte{0, 0, 255, 0, byte(msgPush)}); err != nil {
		return
	}
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if _, err := c.Write([]byte{0}); err != nil {
				return
			}
		}
	}()
}

// TestManyTinyQuestions: a stream of questions that cost nothing to ask is
// answered one by one and holds up neither memory nor other streams.
func TestManyTinyQuestions(t *testing.T) {
	l, _ := start(t, testOptions(t.TempDir(), "b"))
	mustAppend(t, l, note(1))
	here, there := net.Pipe()
	done := make(chan struct{})
	go func() { l.Serve(t.Context(), "a", there); close(done) }()
	for i := range 2000 {
		kind, payload := msgPing, appendSource(nil, l.Source())
		if i%2 == 0 {
			kind, payload = msgMark, binary.BigEndian.AppendUint64(appendSource(nil, l.Source()), 1)
		}
		if err := writeMessage(here, kind, payload); err != nil {
			t.Fatal(err)
		}
		if m, err := readMessage(here); err != nil || m.kind != msgAck {
			t.Fatalf("question %d: %d, %v", i, m.kind, err)
		}
	}
	here.Close()
	<-done
}

// TestEventsAheadAreTold stores events that are a second ahead, and says so
// once.
func TestEventsAheadAreTold(t *testing.T) {
	var text bytes.Buffer
	o := testOptions(t.TempDir(), "b")
	o.Logger = zerolog.New(zerolog.SyncWriter(&text))
	l, stop := start(t, o)
	src := cluster.SourceID{Node: "a", Inc: 1}
	frames, mark := chainRun(t, src, 1, cluster.Hash{}, 2, cluster.NewHLC(time.Now().Add(10*time.Second), 0), 1)
	if _, err := l.receive(t.Context(), frames); err != nil {
		t.Fatal(err)
	}
	frames, _ = chainRun(t, src, 3, mark.Hash, 2, cluster.NewHLC(time.Now().Add(11*time.Second), 0), 1)
	if _, err := l.receive(t.Context(), frames); err != nil || l.Head(src).Seq != 4 {
		t.Fatal(err)
	}
	// What is written here comes after what is known, all the same.
	if e := mustAppend(t, l, note(1)); !e[0].HLC.Time().After(time.Now().Add(5 * time.Second)) {
		t.Fatalf("clock of the next event is %s", e[0].HLC)
	}
	if err := stop(); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if n := strings.Count(text.String(), "ahead of the local clock"); n != 1 {
		t.Fatalf("said %d times:\n%s", n, text.String())
	}
}

// TestHostileAnswersToAFollower: a peer that answers questions for changes at
// once, with nothing or with lies, keeps its follower neither busy nor misled.
func TestHostileAnswersToAFollower(t *testing.T) {
	a := cluster.SourceID{Node: "a", Inc: 1}
	for name, reply := range map[string]message{
		"nothing, at once":  {msgSame, nil},
		"a head it has not": headsAnswer(t, "a", cluster.Head{Source: a, Seq: 9, Hash: cluster.Hash{9}})[0],
		"garbage":           {msgHeadsAre, []byte("heads")},
		"another answer":    {msgAck, ack{}.encode()},
	} {
		t.Run(name, func(t *testing.T) {
			nw := newNetwork(t)
			l := nw.join(t, testOptions(t.TempDir(), "b"))
			var asked atomic.Int64
			nw.answer["c"] = func(c net.Conn) {
				for {
					m, err := readMessage(c)
					if err != nil {
						return
					}
					asked.Add(1)
					if m.kind != msgTail {
						reply = message{msgNothing, nil}
					}
					if writeMessage(c, reply.kind, reply.payload) != nil {
						return
					}
				}
			}
			lies, limit := reply.kind != msgSame, 10*tailGap
			if lies {
				limit = patience
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			err := l.tail(ctx, "c")
			if lies != (err != nil) || lies != (refused(t, l, "frame") > 0) {
				t.Errorf("following ends with %v, %v counted", err, refused(t, l, "frame"))
			}
			cancel()
			nw.setDown("c", true)
			if asked.Load() > 20 || len(l.Heads()) != 0 {
				t.Errorf("asked %d times in %s, holds %v", asked.Load(), 10*tailGap, l.Heads())
			}
		})
	}
}
