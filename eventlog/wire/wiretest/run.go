package wiretest

import (
	"crypto/ed25519"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/record"
)

// Run encodes events as a run that follows on prev, signed by key. It fills in
// the previous hashes, and returns where the run ends.
func Run(t testing.TB, clusterID string, key ed25519.PrivateKey, prev cluster.Hash, events ...event.Event) ([]byte, event.Mark) {
	t.Helper()
	var b []byte
	base, last := events[0].Seq, event.Event{}
	frame := func(kind record.Type, payload []byte, err error) {
		t.Helper()
		if err == nil {
			b, err = record.AppendFrame(b, record.Frame{Type: kind, Base: base, Payload: payload})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range events {
		e.Prev = prev
		p, err := record.AppendEvent(nil, e)
		frame(record.TypeEvent, p, err)
		prev, last = record.HashEvent(prev, p), e
	}
	head := record.SignHead(clusterID, event.Head{Source: last.Source, Seq: last.Seq, Hash: prev}, key)
	p, err := record.AppendHead(nil, head)
	frame(record.TypeHead, p, err)
	return b, event.Mark{Seq: last.Seq, Hash: prev}
}

// Mend makes the checksums of the frames in b true, so that a fuzzer reaches
// what is behind them.
func Mend(b []byte) {
	table := crc32.MakeTable(crc32.Castagnoli)
	for len(b) >= record.FrameHeaderLen {
		n := uint64(binary.LittleEndian.Uint32(b)) + record.FrameHeaderLen
		if n > uint64(len(b)) {
			return
		}
		sum := crc32.Update(crc32.Update(0, table, b[:4]), table, b[8:n])
		binary.LittleEndian.PutUint32(b[4:], sum)
		b = b[n:]
	}
}
