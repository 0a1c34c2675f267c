package wire_test

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/wire"
	"github.com/skein-project/skein/eventlog/wire/wiretest"
)

const testCluster = "test-cluster"

// keyFor derives a host's key from its name.
func keyFor(n cluster.NodeID) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(n))
	return ed25519.NewKeyFromSeed(seed[:])
}

// twoEvents makes the run of a's first two events, another one for each clock.
func twoEvents(t testing.TB, clock cluster.HLC) []byte {
	t.Helper()
	src := event.SourceID{Node: "a", Inc: 1}
	b, _ := wiretest.Run(t, testCluster, keyFor("a"), cluster.Hash{},
		event.Event{Source: src, Seq: 1, HLC: clock, Kind: event.KindHostStarted, Body: []byte(`{}`)},
		event.Event{Source: src, Seq: 2, HLC: clock + 1, Kind: event.KindHostStarted, Body: []byte(`{}`)})
	return b
}

func BenchmarkRunDecode(b *testing.B) {
	body := []byte(`{"version":"` + strings.Repeat("x", 150) + `"}`)
	events := make([]event.Event, 100)
	for i := range events {
		events[i] = event.Event{Source: event.SourceID{Node: "a", Inc: 1}, Seq: uint64(i) + 1, HLC: cluster.HLC(i + 1), Kind: "k", Body: body}
	}
	run, _ := wiretest.Run(b, testCluster, keyFor("a"), cluster.Hash{}, events...)
	for b.Loop() {
		if _, err := wire.DecodeRun(run); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(100*b.N)/b.Elapsed().Seconds(), "events/s")
}

func FuzzRun(f *testing.F) {
	good := twoEvents(f, 1)
	f.Add(good)
	f.Add(good[:70])
	f.Fuzz(func(t *testing.T, b []byte) {
		ru, err := wire.DecodeRun(b)
		if err != nil {
			if !errors.Is(err, wire.ErrPeer) {
				t.Fatal(err)
			}
			return
		}
		if ru.Head.Seq != ru.Events[0].Seq+uint64(len(ru.Events))-1 {
			t.Fatalf("%d events from %d, head at %d", len(ru.Events), ru.Events[0].Seq, ru.Head.Seq)
		}
	})
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 5, 9})
	f.Add([]byte{255, 255, 255, 255, 4})
	f.Add(append([]byte{0, 0, 0, 48, byte(wire.MsgAck)}, wire.Ack{}.Encode()...))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &io.LimitedReader{R: bufio.NewReader(&sliceReader{b}), N: int64(len(b))}
		m, err := wire.ReadMessage(r)
		if err != nil {
			return
		}
		_, _ = wire.DecodeAck(m.Payload)
		_, _, _ = wire.CutSource(m.Payload)
		_, _ = record.DecodeHeads(m.Payload, 10)
	})
}

type sliceReader struct{ b []byte }

func (s *sliceReader) Read(p []byte) (int, error) {
	if len(s.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.b)
	s.b = s.b[n:]
	return n, nil
}

func FuzzProof(f *testing.F) {
	good, err := (wire.Proof{A: twoEvents(f, 1), B: twoEvents(f, 2)}).AppendBinary(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:60])
	f.Add(wire.AppendForks(nil, []wire.Fork{{Source: event.SourceID{Node: "a", Inc: 1}, Seq: 2}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if forks, err := wire.DecodeForks(b); err == nil && !bytes.Equal(wire.AppendForks(nil, forks), b) {
			t.Fatal("list of forks is not canonical")
		}
		p, err := wire.DecodeProof(b)
		if err != nil {
			return
		}
		if again, err := p.AppendBinary(nil); err != nil || !bytes.Equal(again, b) {
			t.Fatal("proof is not canonical")
		}
		if fork, err := p.Verify(testCluster, keyFor("a").Public().(ed25519.PublicKey)); err == nil && fork.Source.Node != "a" {
			t.Fatalf("proves %+v", fork)
		}
	})
}
