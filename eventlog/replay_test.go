package eventlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/store"
)

// history makes the logs of hosts a and b, of many small segments: a holds
// term 1 and submits jobs; b, which misses a's last one, begins term 2; then
// both learn all. The clock goes on a second with each append.
func history(t *testing.T) (a, b *Log) {
	t.Helper()
	var clock atomic.Int64
	clock.Store(1_800_000_000_000)
	wall := func() time.Time { return time.UnixMilli(clock.Load()) }
	net := newNetwork(t)
	logs := map[cluster.NodeID]*Log{}
	for _, id := range []cluster.NodeID{"a", "b"} {
		o := testOptions(t.TempDir(), id)
		o.SegmentSize, o.Wall = 4096, wall
		logs[id] = net.join(t, o)
	}
	a, b = logs["a"], logs["b"]
	write := func(l *Log, d ...event.Draft) {
		clock.Add(1000)
		mustAppend(t, l, d...)
	}
	submit := func(term cluster.Term, key string) event.Draft {
		spec := job.Spec{Key: key, Artefact: cluster.Hash{1}, Iterations: 10, Chunk: 1}.WithDefaults()
		return event.Draft{Term: term, Kind: event.KindJobSubmitted, Body: event.JobSubmitted{
			Job: job.NewID("me", key), Spec: spec, Owner: "me", Chunks: spec.Chunks(),
		}}
	}
	start := func(term cluster.Term, cut event.Cut) event.Draft {
		return event.Draft{Term: term, Kind: event.KindTermStart, Body: event.TermStart{Term: term, Cut: cut}}
	}
	write(a, start(1, nil))
	for i := range 40 {
		write(a, note(i))
		write(b, note(i), note(1000+i))
	}
	write(a, submit(1, "one"))
	if err := b.Sync(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	write(a, submit(1, "lost"))
	write(b, start(2, b.Cut()))
	write(b, submit(2, "two"))
	for i := range 40 {
		write(b, note(i))
	}
	for _, pair := range [][2]*Log{{a, b}, {b, a}} {
		if err := pair[0].Sync(t.Context(), pair[1].o.Self); err != nil {
			t.Fatal(err)
		}
	}
	if stateHash(a) != stateHash(b) || a.Digest() != b.Digest() {
		t.Fatal("the logs differ")
	}
	return a, b
}

func openDir(t *testing.T, l *Log) *audit.Dir {
	t.Helper()
	d, err := audit.OpenDir(audit.VerifyOptions{Dir: l.o.Dir, Cluster: testCluster, Self: l.o.Self, KeyOf: pubFor})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func replay(t *testing.T, d *audit.Dir, at audit.At) (*state.State, audit.Replayed) {
	t.Helper()
	st, r, err := d.ReplayAt(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	if st.Hash() != r.StateHash {
		t.Fatal("the report has another state hash than the state")
	}
	return st, r
}

// TestReplayAt compares replays with folds made by hand: at the end, at many
// times and at a position.
func TestReplayAt(t *testing.T) {
	a, b := history(t)
	d := openDir(t, a)
	if !slices.EqualFunc(d.Heads(), a.Heads(), sameHead) {
		t.Fatalf("heads %v of a log beside its process, want %v", d.Heads(), a.Heads())
	}
	if _, r := replay(t, d, audit.At{}); r.StateHash != stateHash(a) || r.Position.String() != a.Position().String() || r.Events != total(d) {
		t.Fatalf("replay of all: %+v, the running log has state %s", r, stateHash(a))
	}
	var all []event.Event
	for e, err := range d.After(t.Context(), event.Cursor{}, store.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	for i := 0; i < len(all); i += 7 {
		at := all[i].HLC
		naive := state.New()
		for _, e := range all {
			if e.HLC <= at && naive.Apply(e) {
				naive.Refold(nil, slices.Values(all[:i+1]))
			}
		}
		if _, r := replay(t, d, audit.At{Clock: at}); r.StateHash != naive.Hash() || r.Last != at {
			t.Fatalf("at %s: %+v, folded by hand %s", at, r, naive.Hash())
		}
	}
	pos := event.Cursor{a.Source(): 42, b.Source(): 7}
	st, r := replay(t, d, audit.At{Position: pos})
	if r.Events != 49 || r.Position.String() != pos.String() || st.Seq(b.Source()) != 7 {
		t.Fatalf("at %s: %+v", pos, r)
	}
	for _, beyond := range []event.Cursor{{a.Source(): 1 << 40}, {{Node: "z", Inc: 1}: 1}} {
		if _, _, err := d.ReplayAt(t.Context(), audit.At{Position: beyond}); !errors.Is(err, audit.ErrPosition) {
			t.Fatalf("at %s: %v", beyond, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := d.ReplayAt(ended, audit.At{}); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
}

// TestReplayOfARunningLog replays a log while it is written, and finds what it held.
func TestReplayOfARunningLog(t *testing.T) {
	a, _ := history(t)
	_, before, err := a.ReplayAt(t.Context(), audit.At{})
	if err != nil || before.StateHash != stateHash(a) {
		t.Fatalf("%+v, %v, the log has state %s", before, err, stateHash(a))
	}
	mustAppend(t, a, note(1), note(2))
	_, r, err := a.ReplayAt(t.Context(), audit.At{Position: before.Position})
	if err != nil || r.StateHash != before.StateHash || r.Events != before.Events {
		t.Fatalf("%+v, %v, want %+v", r, err, before)
	}
	if _, r, err = a.ReplayAt(t.Context(), audit.At{}); err != nil || r.Events != before.Events+2 {
		t.Fatalf("%+v, %v, want %d events", r, err, before.Events+2)
	}
}

// TestReplayHindsight asks about the moment before term 2 began: the job that
// a submitted unseen counted then, and with hindsight it does not.
func TestReplayHindsight(t *testing.T) {
	a, b := history(t)
	d := openDir(t, b)
	var before cluster.HLC
	for e, err := range d.After(t.Context(), event.Cursor{}, store.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == event.KindTermStart && e.Term == 2 {
			break
		}
		before = e.HLC
	}
	has := func(st *state.State, key string) bool {
		_, ok := st.Job(job.NewID("me", key))
		return ok
	}
	then, _ := replay(t, d, audit.At{Clock: before})
	now, r := replay(t, d, audit.At{Clock: before, Hindsight: true})
	if !has(then, "one") || !has(then, "lost") || has(then, "two") {
		t.Fatal("as of then: want the jobs one and lost")
	}
	if !has(now, "one") || has(now, "lost") || r.Void != 1 {
		t.Fatalf("with hindsight: want the job one and a void event, %+v", r)
	}
	end, _ := replay(t, d, audit.At{Hindsight: true})
	if end.Hash() != stateHash(a) {
		t.Fatal("hindsight changes the end")
	}
}

// TestSeekTime reads since each event's time.
func TestSeekTime(t *testing.T) {
	a, _ := history(t)
	var all []event.Event
	for e, err := range a.Between(a.Oldest(), a.Heads()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	for i := 0; i < len(all); i += 11 {
		since := all[i].HLC.Time()
		want := 0
		for _, e := range all {
			if !e.HLC.Time().Before(since) {
				want++
			}
		}
		got, at := 0, event.Cursor{}
		for _, err := range a.After(t.Context(), at, store.Filter{Since: since}) {
			if err != nil {
				t.Fatal(err)
			}
			got++
		}
		for e, err := range a.After(t.Context(), at, store.Filter{Since: since}) {
			t.Fatalf("again %+v %v", e, err)
		}
		if got != want {
			t.Fatalf("since event %d: %d events, want %d", i, got, want)
		}
	}
}

// TestDirBesideWriter opens a directory again and again while its log grows
// and rotates: it never looks damaged, and never goes back.
func TestDirBesideWriter(t *testing.T) {
	o := testOptions(t.TempDir(), "a")
	o.SegmentSize = 8192
	l, stop := start(t, o)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 300 {
			if _, err := l.Append(context.Background(), []event.Draft{note(i), note(i), note(i)}); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	var last uint64
	for looks := 0; ; looks++ {
		d := openDir(t, l)
		for _, h := range d.Heads() {
			if h.Seq < last {
				t.Fatalf("head went back from %d to %d", last, h.Seq)
			}
			last = h.Seq
		}
		if _, err := audit.Verify(t.Context(), audit.VerifyOptions{Dir: o.Dir, Cluster: testCluster, KeyOf: pubFor}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-done:
			if looks == 0 {
				t.Fatal("never looked beside the writer")
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if d := openDir(t, l); total(d) != 900 {
				t.Fatalf("%d events at the end", total(d))
			}
			return
		default:
		}
	}
}

// lateFS reads zeros where a writer that runs beside has made room and not
// written yet: the first reads of a file say nothing.
type lateFS struct {
	disk.FS
	path string
	late int
}

func (f *lateFS) OpenFile(name string, flag int, perm fs.FileMode) (disk.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	if err != nil || name != f.path {
		return file, err
	}
	return &lateFile{File: file, late: f.late}, nil
}

type lateFile struct {
	disk.File
	late int
}

func (f *lateFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	if f.late > 0 {
		f.late--
		clear(b[:n])
	}
	return n, err
}

// TestHeaderWrittenMeanwhile reads a log whose writer has just begun a segment.
func TestHeaderWrittenMeanwhile(t *testing.T) {
	dir, events, _ := sample(t)
	paths := segmentPaths(t, dir, events[0].Source)
	for late := range 4 {
		o := audit.VerifyOptions{
			Dir: dir, Cluster: testCluster, KeyOf: pubFor,
			FS: &lateFS{FS: disk.OSFS(), path: paths[len(paths)-1], late: late},
		}
		if _, err := audit.OpenDir(o); err != nil {
			t.Errorf("open, %d early reads: %v", late, err)
		}
		o.ChainsOnly = true
		if _, err := audit.Verify(t.Context(), o); err != nil {
			t.Errorf("verify, %d early reads: %v", late, err)
		}
	}
}

// TestDirChecksTheChain has a torn tail, a flipped bit, and an event replaced
// by another one with a good checksum.
func TestDirChecksTheChain(t *testing.T) {
	dir, events, _ := sample(t)
	src := events[0].Source
	open := func() *audit.Dir {
		d, err := audit.OpenDir(audit.VerifyOptions{Dir: dir, Cluster: testCluster, KeyOf: pubFor})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	read := func(d *audit.Dir) (n int, err error) {
		for _, err = range d.After(t.Context(), event.Cursor{}, store.Filter{}) {
			if err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	whole := open()
	if n, err := read(whole); err != nil || n != len(events) {
		t.Fatalf("%d events, %v, want %d", n, err, len(events))
	}
	paths := segmentPaths(t, dir, src)
	lastPath := paths[len(paths)-1]
	text, err := os.ReadFile(lastPath)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(lastPath, text[:len(text)-5], 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := read(open()); err != nil || n == 0 || n >= len(events) {
		t.Fatalf("torn tail: %d events, %v", n, err)
	}
	if err := os.WriteFile(lastPath, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if len(paths) < 3 {
		t.Fatalf("%d segments, the test wants 3", len(paths))
	}
	if text, err = os.ReadFile(paths[1]); err != nil {
		t.Fatal(err)
	}
	good := slices.Clone(text)
	text[len(text)/2+rand.IntN(64)] ^= 1
	if err := os.WriteFile(paths[1], text, 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := read(open()); err == nil {
		t.Fatalf("flipped bit: %d events without an error", n)
	}
	if err := os.WriteFile(paths[1], reclocked(t, good), 0o600); err != nil {
		t.Fatal(err)
	}
	var corrupt *segment.CorruptError
	if n, err := read(open()); !errors.As(err, &corrupt) || corrupt.Source != src || !strings.Contains(corrupt.Reason, "previous hash") {
		t.Fatalf("replaced event: %d events, %v", n, err)
	}
}

// reclocked gives the first event of a segment another clock, and all checksums
// their due.
func reclocked(t *testing.T, text []byte) []byte {
	t.Helper()
	out := []byte(record.Magic)
	done := false
	for rest := text[len(record.Magic):]; len(rest) > 0; {
		fr, n, err := record.ParseFrame(rest)
		if err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
		if fr.Type == record.TypeEvent && !done {
			done = true
			e, err := record.DecodeEvent(fr.Payload)
			if err != nil {
				t.Fatal(err)
			}
			e.HLC++
			if fr.Payload, err = record.AppendEvent(nil, e); err != nil {
				t.Fatal(err)
			}
		}
		if out, err = record.AppendFrame(out, fr); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func total(d *audit.Dir) (n uint64) {
	for _, h := range d.Heads() {
		n += h.Seq
	}
	return n
}

// dropped returns the log of b, which no longer has the beginning of a's chain and
// whose term 2 made void what a wrote unseen, and a's chain.
func dropped(t *testing.T) (b *Log, src event.SourceID) {
	t.Helper()
	tr := newSnapTrio(t, nil)
	a, b := tr.logs["a"], tr.logs["b"]
	for i := range 3 {
		work(t, a, 1, fmt.Sprintf("j%d", i), 60)
		tr.level(t, mustSnapshot(t, a).ID)
	}
	src = a.Source()
	eventually(t, "segments dropped", func() bool { return b.Oldest()[src] > 60 })
	// a goes on unseen; b begins term 2 without it.
	cut := b.Cut()
	tr.net.setDown("a", true)
	work(t, a, 1, "lost", 3)
	mustAppend(t, b, event.Draft{Term: 2, Kind: event.KindTermStart, Body: event.TermStart{
		Term: 2, Cut: cut, Voters: []cluster.NodeID{"a", "b", "c"}, Epoch: 1, ConfigTerm: 1,
	}})
	tr.net.setDown("a", false)
	eventually(t, "b has what a did", func() bool { return b.Head(src).Seq == a.Head(src).Seq })
	return b, src
}

// TestReplayFromSnapshot replays a log whose beginning was dropped: on both
// sides of what a later term made void, and not below the snapshot.
func TestReplayFromSnapshot(t *testing.T) {
	b, src := dropped(t)
	d := openDir(t, b)
	before := total(d)
	at := store.EndOf(d.Heads())
	delete(at, b.Source()) // before the term of b, which writes nothing else
	has := func(st *state.State) bool {
		_, ok := st.Job(job.NewID("o", "lost"))
		return ok
	}
	then, r := replay(t, d, audit.At{Position: at})
	if !has(then) || r.Void != 0 || r.Events != before-1 {
		t.Fatalf("as of then the job counts: %+v", r)
	}
	now, r := replay(t, d, audit.At{Position: at, Hindsight: true})
	if has(now) || r.Void != 4 || r.Events != before-1 {
		t.Fatalf("with hindsight it is void: %+v", r)
	}
	if end, _ := replay(t, d, audit.At{Hindsight: true}); end.Hash() != stateHash(b) {
		t.Fatal("hindsight changes the end")
	}
	// Where the snapshot ends exactly with what was dropped, a time before that
	// must not be answered with its state.
	kept := b.Snapshots().Kept
	for clock := range map[cluster.HLC]bool{1: true, kept[len(kept)-1].Clock - 1: true} {
		if _, r, err := d.ReplayAt(t.Context(), audit.At{Clock: clock}); err == nil && r.Last > clock {
			t.Fatalf("at clock %s: a state as of %s", clock, r.Last)
		}
	}
	if _, _, err := d.ReplayAt(t.Context(), audit.At{Position: event.Cursor{src: 5}}); !errors.Is(err, store.ErrCompacted) {
		t.Fatalf("below the snapshot: %v", err)
	}
	// A reader that stands before what was dropped is told so, and may go on
	// behind it.
	var gone *store.CompactedError
	for e, err := range b.After(t.Context(), event.Cursor{src: 5}, store.Filter{}) {
		if !errors.As(err, &gone) || gone.Source != src || gone.Seq != 6 || gone.Oldest[src] != b.Oldest()[src] {
			t.Fatalf("after event 5: %+v %v", e, err)
		}
	}
	if gone == nil {
		t.Fatal("a gap without a word")
	}
	for _, err := range b.After(t.Context(), event.Cursor{src: 5}, store.Filter{Since: time.Unix(1, 0)}) {
		if !errors.Is(err, store.ErrCompacted) { // a time does not excuse it
			t.Fatalf("after event 5, since a time: %v", err)
		}
	}
	rest := uint64(0)
	from := gone.Oldest.Clone()
	for _, err := range b.After(t.Context(), from, store.Filter{Since: time.Unix(1, 0)}) {
		if err != nil {
			t.Fatal(err)
		}
		rest++
	}
	if rest != total(d)-gone.Oldest[src] || from.String() != b.Position().String() {
		t.Fatalf("%d events from the oldest on, up to %s", rest, from)
	}
}
