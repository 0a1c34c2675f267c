package eventlog

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/internal/durable"
)

func TestAppendReadReopen(t *testing.T) {
	o := testOptions(t.TempDir(), "n1")
	o.SegmentSize = 4096
	o.Registerer = prometheus.NewRegistry()
	l, stop := start(t, o)
	var want []event.Event
	for i := range 60 {
		want = append(want, mustAppend(t, l, note(i), note(i+1000))...)
	}
	hash, heads, digest := stateHash(l), l.Heads(), l.Digest()
	check := func(l *Log) {
		t.Helper()
		var got []event.Event
		for e, err := range l.Read(want[0].Source, 1) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e)
		}
		if len(got) != len(want) {
			t.Fatalf("read %d events, want %d", len(got), len(want))
		}
		for i := range got {
			if got[i].Hash != want[i].Hash || got[i].Seq != uint64(i+1) || string(got[i].Body) != string(want[i].Body) {
				t.Fatalf("event %d: %+v, want %+v", i, got[i], want[i])
			}
		}
	}
	check(l)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if n := len(segmentPaths(t, o.Dir, want[0].Source)); n < 4 {
		t.Fatalf("%d segments, want several", n)
	}
	o.Registerer = nil
	l, _ = start(t, o)
	check(l)
	if stateHash(l) != hash || l.Digest() != digest || !slices.EqualFunc(l.Heads(), heads, sameHead) {
		t.Fatal("state, digest or heads changed by reopening")
	}
	if e := mustAppend(t, l, note(7)); e[0].Seq != 121 || e[0].Prev != want[119].Hash || e[0].HLC <= want[119].HLC {
		t.Fatalf("append after reopening: %+v", e[0])
	}
	for _, from := range []uint64{1, 2, 60, 119, 120, 121, 122, 1 << 60} {
		n := uint64(0)
		for e, err := range l.Read(want[0].Source, from) {
			if err != nil || e.Seq != from+n {
				t.Fatalf("from %d: event %d, %v", from, e.Seq, err)
			}
			n++
		}
		if from <= 121 && n != 122-from || from > 121 && n != 0 {
			t.Fatalf("from %d: %d events", from, n)
		}
	}
}

func sameHead(a, b event.Head) bool {
	return a.Source == b.Source && a.Seq == b.Seq && a.Hash == b.Hash && string(a.Sig) == string(b.Sig)
}

func TestAppendRefuses(t *testing.T) {
	o := testOptions(t.TempDir(), "n1")
	o.MayAct = func(term cluster.Term) bool { return term == 5 }
	l, stop := start(t, o)
	for name, tc := range map[string]struct {
		drafts []event.Draft
		want   error
	}{
		"authority without term": {[]event.Draft{acting(0, 1)}, ErrDraft},
		"no lease":               {[]event.Draft{note(1), acting(4, 1)}, ErrFenced},
		"bad kind":               {[]event.Draft{{Kind: "Bad Kind", Term: 5, Body: struct{}{}}}, ErrDraft},
		"not an object":          {[]event.Draft{{Kind: event.KindHostStarted, Body: []int{1}}}, ErrDraft},
		"not encodable":          {[]event.Draft{{Kind: event.KindHostStarted, Body: func() {}}}, ErrDraft},
		"body too large":         {[]event.Draft{{Kind: event.KindHostStarted, Body: event.HostStarted{Version: strings.Repeat("x", record.MaxBody)}}}, ErrTooLarge},
		"group too large": {slices.Repeat([]event.Draft{{
			Kind: event.KindHostStarted, Body: event.HostStarted{Version: strings.Repeat("x", 1<<20)},
		}}, 9), ErrTooLarge},
	} {
		if _, err := l.Append(t.Context(), tc.drafts); !errors.Is(err, tc.want) || !errors.Is(err, ErrRejected) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	if e := mustAppend(t, l, note(1), acting(5, 2)); e[0].Seq != 1 || e[1].Seq != 2 || e[1].Term != 5 {
		t.Fatalf("refused appends left a trace: %+v", e)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), []event.Draft{note(1)}); !errors.Is(err, ErrClosed) {
		t.Fatalf("append after the end: %v, want ErrClosed", err)
	}
}

func TestLeaseIsAskedAgainByTheWriter(t *testing.T) {
	o := testOptions(t.TempDir(), "n1")
	var mu sync.Mutex
	asked := 0
	o.MayAct = func(cluster.Term) bool { mu.Lock(); defer mu.Unlock(); asked++; return asked == 1 }
	l, _ := start(t, o)
	if _, err := l.Append(t.Context(), []event.Draft{acting(3, 1)}); !errors.Is(err, ErrFenced) {
		t.Fatalf("append with the lease lost in the queue: %v, want ErrFenced", err)
	}
	if h := l.Head(l.Source()); h.Seq != 0 {
		t.Fatalf("head at %d, want nothing written", h.Seq)
	}
}

func TestIntakeIsBoundedAndReserved(t *testing.T) {
	o := testOptions(t.TempDir(), "n1")
	o.IntakeBytes = 8192
	l, err := Open(o) // not running: nothing leaves the queue
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	big := event.Draft{Kind: event.KindPublishing, Body: event.Publishing{Why: strings.Repeat("x", 2500)}}
	var wg sync.WaitGroup
	errs := make(chan error, 3)
	for range 2 {
		wg.Go(func() { _, err := l.Append(ctx, []event.Draft{big}); errs <- err })
	}
	eventually(t, "two appends queued", func() bool { l.w.in.mu.Lock(); defer l.w.in.mu.Unlock(); return len(l.w.in.queue) == 2 })
	full, stopFull := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stopFull()
	if _, err := l.Append(full, []event.Draft{big}); !errors.Is(err, ErrFull) {
		t.Fatalf("append to a full intake: %v, want ErrFull", err)
	}
	wg.Go(func() { _, err := l.Append(ctx, []event.Draft{acting(1, 1)}); errs <- err })
	eventually(t, "urgent append queued", func() bool { l.w.in.mu.Lock(); defer l.w.in.mu.Unlock(); return len(l.w.in.urgent) == 1 })
	cancel()
	wg.Wait()
	for range 3 {
		if err := <-errs; !errors.Is(err, ErrRejected) {
			t.Fatalf("append cancelled in the queue: %v, want ErrRejected", err)
		}
	}
	if l.w.in.total() != 0 {
		t.Fatalf("%d bytes still counted", l.w.in.total())
	}
}

func TestSecondOpenIsRefused(t *testing.T) {
	o := testOptions(t.TempDir(), "n1")
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(o); !errors.Is(err, durable.ErrLocked) {
		t.Fatalf("second open: %v, want ErrLocked", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, err = Open(o)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func TestCloseUnderLoadAnswersEveryone(t *testing.T) {
	l, stop := start(t, testOptions(t.TempDir(), "n1"))
	var wg sync.WaitGroup
	var mu sync.Mutex
	acked := uint64(0)
	for w := range 50 {
		wg.Go(func() {
			for i := 0; ; i++ {
				events, err := l.Append(context.Background(), []event.Draft{note(w*1000 + i)})
				if err != nil {
					if !errors.Is(err, ErrRejected) {
						t.Errorf("append at close: %v", err)
					}
					return
				}
				mu.Lock()
				acked = max(acked, events[0].Seq)
				mu.Unlock()
			}
		})
	}
	eventually(t, "some load", func() bool { mu.Lock(); defer mu.Unlock(); return acked > 200 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	again, _ := start(t, l.o)
	if h := again.Head(again.Source()); h.Seq != acked {
		t.Fatalf("log ends at %d, acknowledged %d", h.Seq, acked)
	}
}

func TestTermStartThatVoidsRebuilds(t *testing.T) {
	net := newNetwork(t)
	a := net.join(t, testOptions(t.TempDir(), "a"))
	b := net.join(t, testOptions(t.TempDir(), "b"))
	termStart := func(term cluster.Term, cut event.Cut) event.Draft {
		return event.Draft{Term: term, Kind: event.KindTermStart, Body: event.TermStart{Term: term, Voters: []cluster.NodeID{"a", "b"}, Cut: cut}}
	}
	mustAppend(t, a, termStart(1, nil))
	cut := a.Cut()
	mustAppend(t, a, event.Draft{Term: 1, Kind: event.KindJobSubmitted, Body: event.JobSubmitted{
		Job: "j1", Spec: job.Spec{Key: "k", Iterations: 10, Chunk: 10, Artefact: cluster.Hash{1}}.WithDefaults(), Chunks: 1,
	}})
	mustAppend(t, b, termStart(2, cut))
	jobs := func(l *Log) (n int) { l.View(func(s *state.State) { n = len(s.Jobs()) }); return n }
	if jobs(a) != 1 {
		t.Fatalf("%d jobs before the fence is known, want 1", jobs(a))
	}
	if err := a.Sync(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if err := b.Sync(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if jobs(a) != 0 || jobs(b) != 0 || stateHash(a) != stateHash(b) {
		t.Fatalf("jobs %d and %d, want 0; state %s and %s", jobs(a), jobs(b), stateHash(a), stateHash(b))
	}
	if a.Digest() != b.Digest() {
		t.Fatal("digests differ after both pulled")
	}
}

func TestFollowAndExport(t *testing.T) {
	net := newNetwork(t)
	a := net.join(t, testOptions(t.TempDir(), "a"))
	b := net.join(t, testOptions(t.TempDir(), "b"))
	for i := range 20 {
		mustAppend(t, a, note(i))
		mustAppend(t, b, note(i))
	}
	if err := a.Sync(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	var last event.Event
	n, behind := 0, 0 // events in all, and those of b behind a's last
	for e, err := range a.Between(a.Oldest(), a.Heads()) {
		if err != nil || n > 0 && !store.Before(last, e) {
			t.Fatalf("export: %v, %+v after %+v", err, e, last)
		}
		if last, n, behind = e, n+1, behind+1; e.Source.Node == "a" {
			behind = 0
		}
	}
	if n != 40 {
		t.Fatalf("exported %d events, want 40", n)
	}
	at := event.Cursor{}
	read := func(f store.Filter) (list []event.Event) {
		t.Helper()
		for e, err := range a.After(t.Context(), at, f) {
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, e)
		}
		return list
	}
	if got := read(store.Filter{Kinds: []string{"host_*"}, Node: "a"}); len(got) != 20 {
		t.Fatalf("%d events of a, want 20", len(got))
	}
	if at.String() != a.Position().String() {
		t.Fatalf("read up to %s, the log ends at %s", at, a.Position())
	}
	mustAppend(t, a, note(100)) // arrives while following
	if got := read(store.Filter{}); len(got) != 1 || got[0].Seq != 21 {
		t.Fatalf("then %+v, want the new event", got)
	}
	for e, err := range a.After(t.Context(), at, store.Filter{}) { // broken off in the middle
		t.Fatalf("%+v %v after all was read", e, err)
	}
	at = event.Cursor{}
	for e, err := range a.After(t.Context(), at, store.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Source.Node == "a" && e.Seq == 20 {
			break
		}
	}
	if got := read(store.Filter{}); len(got) != behind+1 { // and the new event
		t.Fatalf("%d events after the break, want %d", len(got), behind+1)
	}
	for _, f := range []store.Filter{{Kinds: []string{"job_*"}}, {Node: "c"}, {Since: time.Now().Add(time.Hour)}} {
		at = event.Cursor{}
		if got := read(f); len(got) != 0 {
			t.Fatalf("filter %+v lets %+v through", f, got)
		}
		if at.String() != a.Position().String() {
			t.Fatalf("filter %+v: read up to %s", f, at)
		}
	}
	if (store.Filter{Kinds: []string{"["}}).Validate() == nil {
		t.Fatal("malformed pattern accepted")
	}
}

func TestOptionsAreChecked(t *testing.T) {
	good := testOptions(t.TempDir(), "n1")
	for name, change := range map[string]func(*Options){
		"dir":     func(o *Options) { o.Dir = "" },
		"cluster": func(o *Options) { o.Cluster = "" },
		"self":    func(o *Options) { o.Self = "Not Valid" },
		"key":     func(o *Options) { o.Key = nil },
		"segment": func(o *Options) { o.SegmentSize = 1 },
		"intake":  func(o *Options) { o.IntakeBytes = 1 },
	} {
		o := good
		change(&o)
		if l, err := Open(o); err == nil {
			l.Close()
			t.Errorf("%s: accepted", name)
		}
	}
	if err := os.WriteFile(good.Dir+"/stray.1", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := Open(good); err != nil {
		t.Errorf("stray file beside the sources: %v", err)
	} else {
		l.Close()
	}
}

// TestViewIsNotBehindHeads reads heads and then the state while events come:
// the state must know them, since hosts compare states of equal digests.
func TestViewIsNotBehindHeads(t *testing.T) {
	o := testOptions(t.TempDir(), "a")
	o.FS = quickFS()
	l, _ := start(t, o)
	done := make(chan error, 1)
	go func() {
		for i := range 300 {
			if _, err := l.Append(t.Context(), []event.Draft{note(i)}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
		seq := l.Head(l.Source()).Seq
		l.View(func(s *state.State) {
			if got := s.Seq(l.Source()); got < seq {
				t.Errorf("head is %d, state at %d", seq, got)
			}
		})
	}
}
