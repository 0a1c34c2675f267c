package segment

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/wire/wiretest"
)

// TestReadingAheadSeesWhatOneDecoderSees damages a segment that is long enough
// to be read ahead: frames and the final error are those of a decoder that
// reads it alone.
func TestReadingAheadSeesWhatOneDecoderSees(t *testing.T) {
	whole := append(long(t), make([]byte, 8)...) // with some blank space
	if len(whole) < aheadMin+aheadStep {
		t.Fatalf("segment of %d bytes is not read ahead", len(whole))
	}
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 12 {
		damaged := bytes.Clone(whole)
		what := "nothing"
		switch at := r.IntN(len(damaged)); i % 4 {
		case 1:
			damaged[at] ^= 1 << r.IntN(8)
			what = "a bit"
		case 2:
			damaged = damaged[:max(at, aheadMin)]
			what = "the end"
		case 3:
			copy(damaged[at:], make([]byte, 100))
			what = "100 bytes"
		}
		start := int64(len(record.Magic))
		a := readAhead(bytes.NewReader(damaged), start, int64(len(damaged)), i%2 == 0, nil)
		d := record.NewDecoder(bytes.NewReader(damaged[start:]), start, 0)
		for {
			it, errA := a.next()
			fr, errD := d.Next()
			if (errA == nil) != (errD == nil) || errA != nil && errA.Error() != errD.Error() {
				t.Fatalf("damaged %s: %v, a decoder alone says %v", what, errA, errD)
			}
			if errA != nil {
				if i%4 == 0 && !isDamage(errA) {
					t.Fatalf("undamaged: ends with %v", errA)
				}
				break
			}
			if it.fr.Type != fr.Type || it.fr.Base != fr.Base || !bytes.Equal(it.fr.Payload, fr.Payload) || it.end != d.Offset() || a.rec != d.Record() {
				t.Fatalf("damaged %s: another frame at %d", what, d.Offset())
			}
			if it.fr.Type == record.TypeEvent && it.event.Hash != record.HashEvent(it.event.Prev, fr.Payload) {
				t.Fatalf("event at %d is not hashed", it.end)
			}
		}
		a.stop()
	}
}

// TestReadingAheadMayStop ends it in the middle, and with a file that fails.
func TestReadingAheadMayStop(t *testing.T) {
	f := bytes.NewReader(long(t))
	var err error
	start := int64(len(record.Magic))
	for _, frames := range []int{0, 1, 2000} {
		a := readAhead(f, start, f.Size(), true, nil)
		for range frames {
			if _, err := a.next(); err != nil {
				t.Fatal(err)
			}
		}
		a.stop()
	}
	a := readAhead(failingReader{f, 700 << 10}, start, f.Size(), true, nil)
	defer a.stop()
	n := 0
	for ; err == nil; n++ {
		_, err = a.next()
	}
	if errors.Is(err, io.EOF) || n < 1000 {
		t.Fatalf("%v after %d frames, want the file's error after more", err, n)
	}
}

// failingReader cannot read from an offset on.
type failingReader struct {
	io.ReaderAt
	from int64
}

func (f failingReader) ReadAt(b []byte, off int64) (int, error) {
	if off+int64(len(b)) <= f.from {
		return f.ReaderAt.ReadAt(b, off)
	}
	n := 0
	if off < f.from {
		n, _ = f.ReaderAt.ReadAt(b[:f.from-off], off)
	}
	return n, os.ErrDeadlineExceeded
}

// long makes a segment of 5000 events, in groups of a hundred.
func long(t *testing.T) []byte {
	t.Helper()
	src := event.SourceID{Node: "n1", Inc: 1}
	p, err := record.AppendHeader(nil, record.Header{Cluster: testCluster, Source: src, First: 1})
	if err != nil {
		t.Fatal(err)
	}
	b, err := record.AppendFrame([]byte(record.Magic), record.Frame{Type: record.TypeHeader, Base: 1, Payload: p})
	if err != nil {
		t.Fatal(err)
	}
	body := []byte(`{"version":"` + strings.Repeat("x", 300) + `"}`)
	var end event.Mark
	for range 50 {
		events := make([]event.Event, 100)
		for i := range events {
			seq := end.Seq + 1 + uint64(i)
			events[i] = event.Event{Source: src, Seq: seq, HLC: cluster.HLC(seq), Kind: event.KindHostStarted, Body: body}
		}
		var run []byte
		run, end = wiretest.Run(t, testCluster, key(), end.Hash, events...)
		b = append(b, run...)
	}
	return b
}
