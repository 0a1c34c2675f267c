package eventlog

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/record"
)

// TestReadingAheadSeesWhatOneDecoderSees damages a segment that is long enough
// to be read ahead: frames and the final error are those of a decoder that
// reads it alone.
func TestReadingAheadSeesWhatOneDecoderSees(t *testing.T) {
	o := testOptions(t.TempDir(), "n1")
	fill(t, o, 5000)
	whole, err := os.ReadFile(segmentPaths(t, o.Dir, cluster.SourceID{Node: "n1", Inc: 1})[0])
	if err != nil {
		t.Fatal(err)
	}
	whole = whole[:len(bytes.TrimRight(whole, "\x00"))+8] // with some blank space
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
	o := testOptions(t.TempDir(), "n1")
	fill(t, o, 5000)
	f, err := os.Open(segmentPaths(t, o.Dir, cluster.SourceID{Node: "n1", Inc: 1})[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	start := int64(len(record.Magic))
	for _, frames := range []int{0, 1, 2000} {
		a := readAhead(f, start, info.Size(), true, nil)
		for range frames {
			if _, err := a.next(); err != nil {
				t.Fatal(err)
			}
		}
		a.stop()
	}
	a := readAhead(failingReader{f, 700 << 10}, start, info.Size(), true, nil)
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
