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
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/wire"
	"github.com/skein-project/skein/eventlog/wire/wiretest"
)

// answers lets a peer answer each kind of question with the messages of one
// entry, the last one again and again; without one it says nothing.
type answers map[wire.Type][]wire.Message

func (a answers) serve(c net.Conn) {
	turn := map[wire.Type]int{}
	for {
		m, err := wire.ReadMessage(c)
		if err != nil {
			return
		}
		list := a[m.Kind]
		if len(list) == 0 {
			continue
		}
		reply := list[min(turn[m.Kind], len(list)-1)]
		turn[m.Kind]++
		if wire.WriteMessage(c, reply.Kind, reply.Payload) != nil {
			return
		}
	}
}

// headsAnswer is a heads answer, signed by key.
func headsAnswer(t testing.TB, key cluster.NodeID, heads ...event.Head) []wire.Message {
	t.Helper()
	for i := range heads {
		heads[i] = record.SignHead(testCluster, heads[i], keyFor(key))
	}
	b, err := record.AppendHeads(nil, heads)
	if err != nil {
		t.Fatal(err)
	}
	return []wire.Message{{Kind: wire.MsgHeadsAre, Payload: b}}
}

// chainRun makes a run of n events of src from first on, each later than the
// one before by step, and returns it with the mark of its end.
func chainRun(t testing.TB, src event.SourceID, first uint64, prev cluster.Hash, n int, at, step cluster.HLC) ([]byte, event.Mark) {
	t.Helper()
	events := make([]event.Event, n)
	for i := range events {
		events[i] = event.Event{
			Source: src, Seq: first + uint64(i), HLC: at + cluster.HLC(i)*step, Kind: event.KindHostStarted, Body: []byte(`{}`),
		}
	}
	return wiretest.Run(t, testCluster, keyFor(src.Node), prev, events...)
}

// TestHostilePeers lets a peer answer questions in every wrong way. The pull
// ends with an error, is counted by reason, stores nothing that is not
// proven, and an honest peer is pulled from all the same.
func TestHostilePeers(t *testing.T) {
	a := event.SourceID{Node: "a", Inc: 1}
	ten, mark := chainRun(t, a, 1, cluster.Hash{}, 10, 1, 1)
	more, _ := chainRun(t, a, 11, mark.Hash, 5, 100, 1)
	gap, _ := chainRun(t, a, 12, cluster.Hash{5}, 5, 100, 1)
	other, _ := chainRun(t, event.SourceID{Node: "e", Inc: 1}, 1, cluster.Hash{}, 10, 1, 1)
	future, _ := chainRun(t, a, 1, cluster.Hash{}, 10, cluster.NewHLC(time.Now().Add(2*time.Minute), 0), 1)
	back, _ := chainRun(t, a, 11, mark.Hash, 5, 3, 1)
	head := event.Head{Source: a, Seq: mark.Seq, Hash: mark.Hash}
	high := event.Head{Source: a, Seq: 1 << 40, Hash: cluster.Hash{8}}
	noForks := []wire.Message{{Kind: wire.MsgForksAre, Payload: wire.AppendForks(nil, nil)}}
	run := func(frames ...[]byte) []wire.Message {
		var out []wire.Message
		for _, f := range frames {
			out = append(out, wire.Message{Kind: wire.MsgRun, Payload: f})
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
		"another answer":   {"frame", answers{wire.MsgHeads: {{Kind: wire.MsgAck, Payload: wire.Ack{}.Encode()}}}.serve},
		"heads that nobody signed": {"signature", answers{
			wire.MsgHeads: headsAnswer(t, "x", head), wire.MsgForks: noForks, wire.MsgWant: run(signedRun(t, a, 1, cluster.Hash{}, "x")),
		}.serve},
		"a head that it has not":     {"frame", answers{wire.MsgHeads: headsAnswer(t, "a", head), wire.MsgForks: noForks, wire.MsgWant: {{Kind: wire.MsgNothing, Payload: nil}}}.serve},
		"a head far beyond":          {"frame", answers{wire.MsgHeads: headsAnswer(t, "a", high), wire.MsgForks: noForks, wire.MsgWant: run(ten, ten)}.serve},
		"range of another chain":     {"frame", answers{wire.MsgHeads: headsAnswer(t, "a", head), wire.MsgForks: noForks, wire.MsgWant: run(other)}.serve},
		"range that does not follow": {"", answers{wire.MsgHeads: headsAnswer(t, "a", high), wire.MsgForks: noForks, wire.MsgWant: run(ten, gap)}.serve},
		"the same range again":       {"frame", answers{wire.MsgHeads: headsAnswer(t, "a", high), wire.MsgForks: noForks, wire.MsgWant: run(ten, ten)}.serve},
		"an empty range":             {"frame", answers{wire.MsgHeads: headsAnswer(t, "a", head), wire.MsgForks: noForks, wire.MsgWant: run(nil)}.serve},
		"reordered events":           {"chain", answers{wire.MsgHeads: headsAnswer(t, "a", head), wire.MsgForks: noForks, wire.MsgWant: run(reordered)}.serve},
		"flipped bit":                {"chain", answers{wire.MsgHeads: headsAnswer(t, "a", head), wire.MsgForks: noForks, wire.MsgWant: run(flip(ten, 60))}.serve},
		"events from the future":     {"clock", answers{wire.MsgHeads: headsAnswer(t, "a", head), wire.MsgForks: noForks, wire.MsgWant: run(future)}.serve},
		"a clock that goes back":     {"frame", answers{wire.MsgHeads: headsAnswer(t, "a", high), wire.MsgForks: noForks, wire.MsgWant: run(ten, back)}.serve},
		"ends in the middle":         {"", answers{wire.MsgHeads: headsAnswer(t, "a", high), wire.MsgForks: noForks, wire.MsgWant: {{Kind: wire.MsgRun, Payload: ten}, {Kind: wire.MsgSorry, Payload: []byte("no")}}}.serve},
		"stalls in the middle":       {"timeout", stallAfter(answers{wire.MsgHeads: headsAnswer(t, "a", high), wire.MsgForks: noForks, wire.MsgWant: run(ten, more)}, 3)},
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
			if hash, ok := hashAt(b, a, 10); ok && hash != mark.Hash {
				t.Error("stored what nobody signed")
			}
			if tc.reason != "" && refused(t, b, tc.reason) == 0 {
				t.Errorf("not counted as %s: %v", tc.reason, err)
			}
			if err := b.Sync(t.Context(), "d"); err != nil || b.Head(honest.Source()).Seq != 1 {
				t.Errorf("an honest peer after that: %v", err)
			}
			if _, err := b.Verify(t.Context(), nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// trickle answers with a message that never ends.
func trickle(c net.Conn) {
	go drain(c)
	if _, err := c.Write([]byte{0, 0, 255, 0, byte(wire.MsgHeadsAre)}); err != nil {
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
			m, err := wire.ReadMessage(c)
			if err != nil {
				return
			}
			if list := a[m.Kind]; len(list) > 0 && wire.WriteMessage(c, list[0].Kind, list[0].Payload) != nil {
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
	a := event.SourceID{Node: "a", Inc: 1}
	future, _ := chainRun(t, a, 1, cluster.Hash{}, 3, cluster.NewHLC(time.Now().Add(2*time.Minute), 0), 1)
	want := func(seq uint64) []byte {
		return binary.BigEndian.AppendUint64(wire.AppendSource(nil, hasty.Source()), seq)
	}
	for name, tc := range map[string]struct {
		reason string
		ask    func(net.Conn)
	}{
		"says nothing":        {"timeout", func(net.Conn) {}},
		"a byte at a time":    {"timeout", trickleQuestion},
		"half a message":      {"timeout", func(c net.Conn) { _, _ = c.Write([]byte{0, 0, 0, 99, byte(wire.MsgPush), 1}) }},
		"unknown question":    {"frame", func(c net.Conn) { _ = wire.WriteMessage(c, 77, nil) }},
		"huge question":       {"frame", func(c net.Conn) { _, _ = c.Write([]byte{200, 0, 0, 0, byte(wire.MsgPush)}) }},
		"mark cut short":      {"frame", func(c net.Conn) { _ = wire.WriteMessage(c, wire.MsgMark, want(1)[:9]) }},
		"proof of nothing":    {"frame", func(c net.Conn) { _ = wire.WriteMessage(c, wire.MsgProof, []byte{3, 'a'}) }},
		"run from the future": {"clock", func(c net.Conn) { _ = wire.WriteMessage(c, wire.MsgPush, future) }},
		"run nobody signed":   {"signature", func(c net.Conn) { _ = wire.WriteMessage(c, wire.MsgPush, signedRun(t, a, 1, cluster.Hash{}, "x")) }},
		"answers never read":  {"timeout", func(c net.Conn) { _ = wire.WriteMessage(c, wire.MsgWant, want(1)) }},
		"this host's own chain": {"frame", func(c net.Conn) {
			_ = wire.WriteMessage(c, wire.MsgPush, signedRun(t, patient.Source(), 3, cluster.Hash{1}, "b"))
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
	if _, err := c.Write([]byte{0, 0, 255, 0, byte(wire.MsgPush)}); err != nil {
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
		kind, payload := wire.MsgPing, wire.AppendSource(nil, l.Source())
		if i%2 == 0 {
			kind, payload = wire.MsgMark, binary.BigEndian.AppendUint64(wire.AppendSource(nil, l.Source()), 1)
		}
		if err := wire.WriteMessage(here, kind, payload); err != nil {
			t.Fatal(err)
		}
		if m, err := wire.ReadMessage(here); err != nil || m.Kind != wire.MsgAck {
			t.Fatalf("question %d: %d, %v", i, m.Kind, err)
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
	src := event.SourceID{Node: "a", Inc: 1}
	frames, mark := chainRun(t, src, 1, cluster.Hash{}, 2, cluster.NewHLC(time.Now().Add(10*time.Second), 0), 1)
	if _, err := l.rep.Receive(t.Context(), frames); err != nil {
		t.Fatal(err)
	}
	frames, _ = chainRun(t, src, 3, mark.Hash, 2, cluster.NewHLC(time.Now().Add(11*time.Second), 0), 1)
	if _, err := l.rep.Receive(t.Context(), frames); err != nil || l.Head(src).Seq != 4 {
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
	a := event.SourceID{Node: "a", Inc: 1}
	for name, reply := range map[string]wire.Message{
		"nothing, at once":  {Kind: wire.MsgSame, Payload: nil},
		"a head it has not": headsAnswer(t, "a", event.Head{Source: a, Seq: 9, Hash: cluster.Hash{9}})[0],
		"garbage":           {Kind: wire.MsgHeadsAre, Payload: []byte("heads")},
		"another answer":    {Kind: wire.MsgAck, Payload: wire.Ack{}.Encode()},
	} {
		t.Run(name, func(t *testing.T) {
			nw := newNetwork(t)
			o := testOptions(t.TempDir(), "b")
			o.Dial, o.Peers = nw.dialer("b"), func() []cluster.NodeID { return []cluster.NodeID{"c"} }
			o.PullEvery = time.Hour // it follows once
			var asked atomic.Int64
			nw.answer["c"] = func(c net.Conn) {
				for {
					m, err := wire.ReadMessage(c)
					if err != nil {
						return
					}
					asked.Add(1)
					answer := reply
					if m.Kind != wire.MsgTail {
						answer = wire.Message{Kind: wire.MsgNothing}
					}
					if wire.WriteMessage(c, answer.Kind, answer.Payload) != nil {
						return
					}
				}
			}
			l, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			l.SetVoters(voters("z")) // nobody pushes to c
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- l.Run(ctx) }()
			const while = 500 * time.Millisecond
			lies := reply.Kind != wire.MsgSame
			if lies {
				eventually(t, "the lie is counted", func() bool { return refused(t, l, "frame") > 0 })
			} else {
				time.Sleep(while)
			}
			if n := refused(t, l, "frame"); lies != (n > 0) || !lies && metric(t, l, "following") != 1 {
				t.Errorf("%v counted", n)
			}
			nw.setDown("c", true)
			if asked.Load() > 20 || len(l.Heads()) != 0 {
				t.Errorf("asked %d times in %s, holds %v", asked.Load(), while, l.Heads())
			}
			cancel()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		})
	}
}
