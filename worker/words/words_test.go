package words

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster/job"
)

// TestWordsKeepBothEnds: whatever pieces words come in, the first and the last are kept,
// what lies between is counted, and a reader that keeps up misses nothing.
func TestWordsKeepBothEnds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, total := range []int{0, 1, First - 1, First, First + 1, First + Last, First + Last + 1, 3 * (First + Last)} {
		text := make([]byte, total)
		for i := range text {
			text[i] = byte('a' + rng.IntN(26))
		}
		var w Words
		var read []byte
		for rest := text; len(rest) > 0; {
			n := min(len(rest), 1+rng.IntN(9000))
			if k, err := w.Write(rest[:n]); k != n || err != nil {
				t.Fatal(k, err)
			}
			rest = rest[n:]
			for {
				piece, from := w.After(uint64(len(read)))
				if len(piece) == 0 {
					break
				}
				if from != uint64(len(read)) {
					t.Fatalf("after %d comes %d", len(read), from)
				}
				read = append(read, piece...)
			}
		}
		if !bytes.Equal(read, text) {
			t.Errorf("%d bytes: a reader that keeps up read others", total)
		}
		s := w.Said()
		if !bytes.Equal(s.Head, text[:min(total, First)]) || !bytes.HasSuffix(text, s.Tail) || len(s.Head)+len(s.Tail)+int(s.Left) != total || len(s.Tail) < min(total-len(s.Head), Last) {
			t.Errorf("%d bytes: kept %d and %d, %d left out", total, len(s.Head), len(s.Tail), s.Left)
		}
		if short := s.Short(); len(short) > MaxShort || total > 0 && (short[0] != text[0] || short[len(short)-1] != text[total-1]) || total <= ShortFirst && !bytes.Equal(short, text) {
			t.Errorf("%d bytes: short is %d", total, len(short))
		}
		if total > First+Last && !strings.Contains(string(s.Text()), fmt.Sprintf("[%d bytes are left out here]", s.Left)) {
			t.Errorf("%d bytes: nothing says what is left out", total)
		}
	}
}

// TestSkippedWords: what got lost on the way is not passed off as something else.
func TestSkippedWords(t *testing.T) {
	var w Words
	_, _ = w.Write([]byte("first"))
	w.Skip(1000)
	_, _ = w.Write([]byte("last"))
	if s := w.Said(); string(s.Head) != "first" || string(s.Tail) != "last" || s.Left != 1000 {
		t.Errorf("%+v", s)
	}
	if text, from := w.After(5); string(text) != "last" || from != 1005 {
		t.Errorf("%q from %d", text, from)
	}
}

func openRing(t *testing.T, dir string, now *time.Time) *Ring {
	t.Helper()
	r, err := Open(Options{Dir: dir, Bytes: files * (First + Last), Age: time.Hour, Now: func() time.Time { return *now }})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func attempt(id job.ID, chunk int) job.Attempt { return job.Attempt{Job: id, Chunk: chunk, Number: 1} }

func (r *Ring) run(a job.Attempt, said, failed string) {
	_, _ = r.Begin(a).Write([]byte(said))
	r.End(a, true, failed)
}

func all(t *testing.T, r *Ring, id job.ID) (out []Entry) {
	t.Helper()
	if err := r.Read(id, func(job.Attempt, bool) bool { return true }, func(e Entry) error { out = append(out, e); return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRing: what ended is there after a restart, as far as it is whole and not too old.
func TestRing(t *testing.T) {
	now, dir := time.Now(), t.TempDir()
	r := openRing(t, dir, &now)
	w := r.Begin(attempt("j1", 0))
	_, _ = w.Write([]byte("hello\n"))
	if live := r.Live("j1"); len(live) != 1 || string(live[0].Said().Head) != "hello\n" {
		t.Fatalf("live: %+v", live)
	}
	l := r.Live("j1")[0]
	now = now.Add(3 * time.Second)
	r.End(attempt("j1", 0), true, "exit code 3")
	if ended, failed, took := l.Ended(); !ended || failed != "exit code 3" || took != 3*time.Second || len(r.Live("j1")) != 0 {
		t.Errorf("ended %v %q %s", ended, failed, took)
	}
	r.Begin(attempt("j1", 1))
	r.End(attempt("j1", 1), false, "it is not kept")
	r.run(attempt("j1", 2), "", "said nothing")
	r.run(attempt("j1", 3), "", "")
	r.run(attempt("j2", 0), "of another", "")
	check := func(r *Ring) {
		t.Helper()
		got := all(t, r, "j1")
		if len(got) != 2 || got[0].Attempt != attempt("j1", 0) || got[0].Error != "exit code 3" || got[0].Seconds != 3 || string(got[0].Said.Text()) != "hello\n" || got[1].Error != "said nothing" {
			t.Fatalf("%+v", got)
		}
		if other := all(t, r, "j2"); len(other) != 1 || other[0].Error != "" {
			t.Fatalf("%+v", other)
		}
	}
	check(r)
	// A crash leaves half a record; what stands before it is good.
	names, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	f, err := os.OpenFile(names[0], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteString(`{"job":"j1","chunk":9,"attempt":1,"head":100` + "}\nhalf")
	f.Close()
	r = openRing(t, dir, &now)
	check(r)
	r.run(attempt("j1", 4), "later", "exit code 4")
	if got := all(t, r, "j1"); len(got) != 3 || string(got[2].Said.Text()) != "later" {
		t.Fatalf("after a crash: %+v", got)
	}
	now = now.Add(61 * time.Minute)
	if got := all(t, r, "j1"); len(got) != 0 {
		t.Errorf("too old: %+v", got)
	}
	r.Prune()
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("too old, and there: %v", left)
	}
	r.run(attempt("j1", 5), "again", "exit code 5")
	if got := all(t, r, "j1"); len(got) != 1 {
		t.Errorf("after all went: %+v", got)
	}
}

// TestRingIsBounded: a host on which everything fails keeps the latest.
func TestRingIsBounded(t *testing.T) {
	now, dir := time.Now(), t.TempDir()
	r := openRing(t, dir, &now)
	long := strings.Repeat("x", First+Last)
	for i := range 60 {
		r.run(attempt("j", i), long, "exit code 1")
	}
	var bytes int64
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		bytes += info.Size()
	}
	got := all(t, r, "j")
	if bytes > files*(First+Last) || len(got) < files-2 || got[len(got)-1].Chunk != 59 {
		t.Errorf("%d bytes of %d attempts, the last is %d", bytes, len(got), got[len(got)-1].Chunk)
	}
	if _, err := Open(Options{Dir: dir, Bytes: 1000}); err == nil {
		t.Error("no room for one attempt is taken for a size")
	}
}
