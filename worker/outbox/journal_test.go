package outbox

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/stream"
)

func FuzzOutboxFile(f *testing.F) {
	f.Add([]byte(`{"job":"j","chunk":0,"attempt":1,"error":"x","seconds":1}` + "\n"))
	f.Add([]byte("rot\n{}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		o := New(1<<20, time.Hour)
		_, _ = o.read(bytes.NewReader(b), time.Time{})
		for _, r := range o.Refs() {
			res, ok := o.Get(r)
			if !ok || (stream.Frame{Result: &res}).Validate() != nil {
				t.Fatalf("kept an invalid result %+v", res)
			}
			_, _ = o.Drop(r)
		}
		if o.bytes != 0 || o.Len() != 0 {
			t.Fatalf("%d bytes, %d results left", o.bytes, o.Len())
		}
	})
}

// A worker that is killed keeps what it has not been told to forget, whatever
// the last line of the journal looks like.
func TestJournal(t *testing.T) {
	name := filepath.Join(t.TempDir(), "outbox")
	now := time.Unix(0, 0)
	result := func(chunk int) stream.Result { return stream.Result{Attempt: attempt(chunk, 1), Error: "x"} }
	o := New(1<<20, time.Hour)
	if _, err := o.Open(name, now); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if err := o.Add(result(i), now); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := o.Drop(attempt(1, 1), attempt(3, 1), attempt(9, 1)); n != 2 || err != nil {
		t.Fatalf("dropped %d, %v", n, err)
	}
	journal, err := os.ReadFile(name) // the process ends here
	if err != nil {
		t.Fatal(err)
	}
	for cut := range 40 {
		if err := os.WriteFile(name, journal[:len(journal)-cut], 0o600); err != nil {
			t.Fatal(err)
		}
		again := New(1<<20, time.Hour)
		if _, err := again.Open(name, now); err != nil {
			t.Fatal(err)
		}
		if got := again.Refs(); cut <= 1 && !slices.Equal(got, []job.Attempt{attempt(0, 1), attempt(2, 1), attempt(4, 1)}) || len(got) < 3 {
			t.Fatalf("cut by %d bytes: %v", cut, got)
		}
		again.journal.Close()
	}
}

// The journal does not grow with what was dropped.
func TestJournalIsBounded(t *testing.T) {
	name := filepath.Join(t.TempDir(), "outbox")
	o := New(1<<20, time.Hour)
	if _, err := o.Open(name, time.Time{}); err != nil {
		t.Fatal(err)
	}
	long := stream.Result{Error: string(make([]byte, 800))}
	for i := range 5000 {
		long.Attempt = attempt(i, 1)
		if err := o.Add(long, time.Time{}); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Drop(long.Attempt); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(name); err != nil || info.Size() > 2*maxJournalWaste {
		t.Errorf("%v, %d bytes", err, info.Size())
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}

// A journal that cannot be written costs no result, and goes on when it can.
func TestJournalFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	o := New(1<<20, time.Hour)
	if _, err := o.Open(filepath.Join(dir, "outbox"), time.Time{}); !errors.Is(err, ErrJournal) {
		t.Fatalf("%v, want errJournal", err)
	}
	for i := range 10 {
		if err := o.Add(stream.Result{Attempt: attempt(i, 1), Error: "x"}, time.Time{}); !errors.Is(err, ErrJournal) || o.Len() != i+1 {
			t.Fatalf("%v, %d kept", err, o.Len())
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var err error
	for i := range 64 {
		err = o.Add(stream.Result{Attempt: attempt(100+i, 1), Error: "x"}, time.Time{})
	}
	if err != nil || o.failing != 0 {
		t.Errorf("%v, still failing", err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}

func attempt(chunk, n int) job.Attempt { return job.Attempt{Job: "j", Chunk: chunk, Number: n} }

// TestFlippedBits: no bit of the journal can be changed so that another result is
// read, and the others stay. A journal without checksums is read as it is.
func TestFlippedBits(t *testing.T) {
	name := filepath.Join(t.TempDir(), "outbox")
	now := time.Unix(0, 0)
	o := New(1<<20, time.Hour)
	if _, err := o.Open(name, now); err != nil {
		t.Fatal(err)
	}
	want := map[job.Attempt]stream.Result{}
	for i := range 3 {
		res := stream.Result{Attempt: attempt(i, 1), Seconds: 3.1415, Result: &job.ChunkResult{
			Iterations: 10, Metrics: map[string]job.Metric{"pi": {N: 10, Mean: 3.1415, Min: 3, Max: 4}},
		}}
		if err := o.Add(res, now); err != nil {
			t.Fatal(err)
		}
		want[res.Attempt] = res
	}
	if _, err := o.Drop(attempt(1, 1)); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << bit
			again := New(1<<20, time.Hour)
			skipped, _ := again.read(bytes.NewReader(bad), now)
			for _, ref := range again.Refs() {
				if res, _ := again.Get(ref); !reflect.DeepEqual(res, want[ref]) {
					t.Fatalf("bit %d of byte %d: read %+v", bit, i, res)
				}
			}
			if again.Len() < 1 || skipped == 0 {
				t.Fatalf("bit %d of byte %d: %d results, %d damaged", bit, i, again.Len(), skipped)
			}
		}
	}
	var old []byte
	for line := range bytes.Lines(good) {
		old = append(append(old, line[:bytes.LastIndexByte(line, ' ')]...), '\n')
	}
	again := New(1<<20, time.Hour)
	if skipped, err := again.read(bytes.NewReader(old), now); err != nil || skipped > 0 || again.Len() != 2 {
		t.Errorf("a journal without checksums: %d results, %d damaged, %v", again.Len(), skipped, err)
	}
}
