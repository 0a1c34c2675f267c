package eventlog

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/wire"
	"github.com/skein-project/skein/eventlog/wire/wiretest"
)

// scriptConn is a stream whose other side says what the fuzzer wrote, and
// listens to nothing.
type scriptConn struct {
	net.Conn
	r *bytes.Reader
}

func (c *scriptConn) Read(b []byte) (int, error)       { return c.r.Read(b) }
func (c *scriptConn) Write(b []byte) (int, error)      { return len(b), nil }
func (c *scriptConn) Close() error                     { return nil }
func (c *scriptConn) SetDeadline(time.Time) error      { return nil }
func (c *scriptConn) SetReadDeadline(time.Time) error  { return nil }
func (c *scriptConn) SetWriteDeadline(time.Time) error { return nil }

// mendScript does so in the runs and proofs of a script of messages.
func mendScript(b []byte) {
	for len(b) >= 5 {
		n := uint64(binary.BigEndian.Uint32(b)) + 5
		if n > uint64(len(b)) {
			return
		}
		switch payload := b[5:n]; wire.Type(b[4]) {
		case wire.MsgPush, wire.MsgRun:
			wiretest.Mend(payload)
		case wire.MsgProofIs:
			for at := 1; at+4 <= len(payload); {
				end := uint64(at) + 4 + uint64(binary.BigEndian.Uint32(payload[at:]))
				if end > uint64(len(payload)) {
					break
				}
				wiretest.Mend(payload[at+4 : end])
				at = int(end)
			}
		}
		b = b[n:]
	}
}

func script(t testing.TB, messages ...wire.Message) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, m := range messages {
		if err := wire.WriteMessage(&b, m.Kind, m.Payload); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// fuzzLog is a log that a fuzzer talks to. Whatever it hears, it must stay
// whole, and hold of others only what these signed.
func fuzzLog(f *testing.F, dial func() net.Conn) (l *Log, check func(*testing.T)) {
	o := testOptions(f.TempDir(), "b")
	o.FS, o.IOTimeout = quickFS(), time.Second
	if dial != nil {
		o.Dial = func(context.Context, cluster.NodeID) (net.Conn, error) { return dial(), nil }
	}
	l, _ = start(f, o)
	mustAppend(f, l, note(1), note(2))
	own := l.Head(l.Source())
	return l, func(t *testing.T) {
		if err := l.Err(); err != nil {
			t.Fatal(err)
		}
		if got := l.Head(own.Source); got.Seq != own.Seq || got.Hash != own.Hash {
			t.Fatalf("own chain changed: %+v", got)
		}
		for _, h := range l.Heads() {
			if record.VerifyHead(testCluster, h, pubFor(h.Source.Node)) != nil {
				t.Fatalf("stored what %s did not sign", h.Source)
			}
		}
	}
}

// FuzzServe lets the fuzzer ask.
func FuzzServe(f *testing.F) {
	l, check := fuzzLog(f, nil)
	src := event.SourceID{Node: "a", Inc: 1}
	ten, mark := chainRun(f, src, 1, cluster.Hash{}, 10, 1, 1)
	more, _ := chainRun(f, src, 11, mark.Hash, 3, 50, 1)
	at := binary.BigEndian.AppendUint64(wire.AppendSource(nil, l.Source()), 1)
	f.Add(script(f, wire.Message{Kind: wire.MsgHeads, Payload: wire.HeadsQuestion(0, [16]byte{})}, wire.Message{Kind: wire.MsgForks, Payload: nil}, wire.Message{Kind: wire.MsgWant, Payload: at}, wire.Message{Kind: wire.MsgMark, Payload: at}))
	f.Add(script(f, wire.Message{Kind: wire.MsgPosition, Payload: wire.AppendSource(nil, src)}, wire.Message{Kind: wire.MsgPush, Payload: ten}, wire.Message{Kind: wire.MsgPush, Payload: more}, wire.Message{Kind: wire.MsgPing, Payload: wire.AppendSource(nil, src)}))
	f.Add(script(f, wire.Message{Kind: wire.MsgProof, Payload: wire.AppendSource(nil, src)}, wire.Message{Kind: wire.MsgHeads, Payload: wire.HeadsQuestion(7, [16]byte{})}))
	for kind := range wire.Type(40) {
		f.Add(script(f, wire.Message{Kind: kind, Payload: at}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Clone(b)
		mendScript(b)
		l.Serve(t.Context(), "a", &scriptConn{r: bytes.NewReader(b)})
		check(t)
	})
}

// FuzzPull lets the fuzzer answer.
func FuzzPull(f *testing.F) {
	var says []byte
	l, check := fuzzLog(f, func() net.Conn { return &scriptConn{r: bytes.NewReader(says)} })
	src := event.SourceID{Node: "a", Inc: 1}
	ten, mark := chainRun(f, src, 1, cluster.Hash{}, 10, 1, 1)
	heads := headsAnswer(f, "a", event.Head{Source: src, Seq: mark.Seq, Hash: mark.Hash})[0]
	none := wire.Message{Kind: wire.MsgForksAre, Payload: wire.AppendForks(nil, nil)}
	proof, err := proofOf(f).AppendBinary(nil)
	if err != nil {
		f.Fatal(err)
	}
	forks := wire.Message{Kind: wire.MsgForksAre, Payload: wire.AppendForks(nil, []wire.Fork{{Source: src, Seq: 2, Prev: cluster.Hash{1}}})}
	f.Add(script(f, heads, none, wire.Message{Kind: wire.MsgRun, Payload: ten}))
	f.Add(script(f, heads, none, wire.Message{Kind: wire.MsgRun, Payload: ten[:200]}))
	f.Add(script(f, heads, forks, wire.Message{Kind: wire.MsgProofIs, Payload: proof}))
	f.Add(script(f, wire.Message{Kind: wire.MsgSame, Payload: nil}))
	f.Add(script(f, wire.Message{Kind: wire.MsgRefused, Payload: make([]byte, 8)}))
	f.Add(script(f, wire.Message{Kind: wire.MsgSorry, Payload: []byte("no")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		says = bytes.Clone(b)
		mendScript(says)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := l.Sync(ctx, "c")
		if ctx.Err() != nil {
			t.Fatalf("a pull from a peer that says %x does not end: %v", b, err)
		}
		if err == nil && len(b) < 5 {
			t.Fatal("nothing was said, and believed")
		}
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("the stream ended, and that is no error: %v", err)
		}
		check(t)
	})
}
