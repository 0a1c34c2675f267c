package eventlog

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/eventlog/store"
)

// repairRig is a log with two damaged chains, its own and one of "b", that "b"
// holds in full, but for the last events of the own chain.
type repairRig struct {
	net   *network
	o     Options
	b     *Log
	heads map[event.SourceID]event.Head // before the damage
}

func newRepairRig(t *testing.T) *repairRig {
	t.Helper()
	r := &repairRig{net: newNetwork(t), heads: map[event.SourceID]event.Head{}}
	r.o = testOptions(t.TempDir(), "a")
	r.o.FS, r.o.SegmentSize = quickFS(), 4096
	r.o.Dial = r.net.dialer("a")
	a, stop := start(t, r.o)
	r.net.add("a", a)
	bo := testOptions(t.TempDir(), "b")
	bo.FS, bo.SegmentSize = quickFS(), 4096
	r.b = r.net.join(t, bo)
	for i := range 40 {
		mustAppend(t, a, note(i))
		mustAppend(t, r.b, note(i), note(i))
		if err := a.Sync(t.Context(), "b"); err != nil { // group by group
			t.Fatal(err)
		}
	}
	if err := r.b.Sync(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, a, note(100)) // nobody else has it
	mustAppend(t, a, note(101))
	for _, h := range a.Heads() {
		r.heads[h.Source] = h
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *repairRig) flip(t *testing.T, path string, at int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 0x10
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (r *repairRig) repair(t *testing.T, accept bool) []audit.Repairing {
	t.Helper()
	done, err := audit.Repair(t.Context(), audit.RepairOptions{
		Dir: r.o.Dir, Cluster: testCluster, Self: "a", KeyOf: pubFor, Aside: filepath.Join(r.o.Dir, "..", "damaged"),
		AcceptLoss: accept, Now: time.Unix(1_700_000_000, 0),
	})
	if err != nil {
		t.Fatal(err)
	}
	return done.Chains
}

func (r *repairRig) mend(t *testing.T, a *Log) {
	t.Helper()
	eventually(t, "the log is whole again", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		left, err := a.Mend(ctx, "b")
		return err == nil && len(left) == 0
	})
}

// TestRepairFetchesAgain damages both chains in a middle segment. Each comes
// back whole: from the other host, and what that does not have from the files
// that were set aside. The own chain goes on as a new incarnation that names
// what was left of the old one.
func TestRepairFetchesAgain(t *testing.T) {
	r := newRepairRig(t)
	ownSrc, bSrc := event.SourceID{Node: "a", Inc: 1}, r.b.Source()
	for src := range r.heads {
		r.flip(t, segmentPaths(t, r.o.Dir, src)[1], 1500)
	}
	if _, err := Open(r.o); err == nil {
		t.Fatal("a damaged log opened")
	}
	list := r.repair(t, false)
	if len(list) != 2 {
		t.Fatalf("%d chains under repair: %+v", len(list), list)
	}
	for _, c := range list {
		if want := r.heads[c.Source].Seq; c.Known != want || c.Kept == 0 || c.Kept >= want {
			t.Fatalf("%s: kept %d, known %d, had %d", c.Source, c.Kept, c.Known, want)
		}
	}
	if again := r.repair(t, false); len(again) != 2 {
		t.Fatalf("a second repair finds %d chains", len(again))
	}
	a, stop := start(t, r.o)
	r.net.add("a", a)
	if got := a.Source(); got.Inc != 2 {
		t.Fatalf("own chain is %s", got)
	}
	e := mustAppend(t, a, note(200))[0]
	if e.Source.Inc != 2 || e.Seq != 2 {
		t.Fatalf("appended %s/%d", e.Source, e.Seq)
	}
	r.mend(t, a)
	for _, src := range []event.SourceID{ownSrc, bSrc} {
		if got, want := a.Head(src), r.heads[src]; !sameHead(got, want) {
			t.Fatalf("%s is back up to %d, was at %d", src, got.Seq, want.Seq)
		}
	}
	if err := r.b.Sync(t.Context(), "a"); err != nil || r.b.Digest() != a.Digest() {
		t.Fatalf("b does not have the same: %v", err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := audit.Verify(t.Context(), audit.VerifyOptions{Dir: r.o.Dir, Cluster: testCluster, KeyOf: pubFor, Self: "a"}); err != nil {
		t.Fatal(err)
	}
	a, _ = start(t, r.o)
	if got := a.Source(); got.Inc != 2 || len(a.Repairing()) != 0 {
		t.Fatalf("after another start: own chain %s, %d repairs", got, len(a.Repairing()))
	}
}

// TestRepairOfWhatNobodyHas loses events for good: the repair is not done until
// their loss is accepted.
func TestRepairOfWhatNobodyHas(t *testing.T) {
	r := newRepairRig(t)
	src := event.SourceID{Node: "a", Inc: 1}
	paths := segmentPaths(t, r.o.Dir, src)
	last := paths[len(paths)-1]
	b, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	r.flip(t, last, bytes.LastIndex(b, []byte(`"v101"`)))
	if _, err := Open(r.o); err == nil {
		t.Fatal("a log opened that lost its last event")
	}
	list := r.repair(t, false)
	if len(list) != 1 || list[0].Known != r.heads[src].Seq || list[0].Kept != r.heads[src].Seq-1 {
		t.Fatalf("under repair: %+v", list)
	}
	a, stop := start(t, r.o)
	r.net.add("a", a)
	mustAppend(t, a, note(1))
	left, err := a.Mend(t.Context(), "b")
	if err != nil || len(left) != 1 || len(a.Repairing()) != 1 {
		t.Fatalf("left %+v, %v", left, err)
	}
	if got := a.Head(src).Seq; got != r.heads[src].Seq-1 {
		t.Fatalf("the chain has %d events, of %d one is lost", got, r.heads[src].Seq)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	r.repair(t, true)
	a, _ = start(t, r.o)
	r.net.add("a", a)
	r.mend(t, a)
	if got := a.Source(); got.Inc != 2 {
		t.Fatalf("own chain is %s", got)
	}
}

// TestRepairOfEveryKindOfDamage damages the chain of another host in each way
// that a disk or an operator can: it is found, set aside and fetched again.
func TestRepairOfEveryKindOfDamage(t *testing.T) {
	r := newRepairRig(t)
	src := r.b.Source()
	for name, change := range map[string]func(p []string) error{
		"header":        func(p []string) error { r.flip(t, p[1], 12); return nil },
		"first segment": func(p []string) error { r.flip(t, p[0], 3); return nil },
		"first missing": func(p []string) error { return os.Remove(p[0]) },
		"middle missing": func(p []string) error {
			return os.Remove(p[1])
		},
		"last missing": func(p []string) error { return os.Remove(p[len(p)-1]) },
		"swapped": func(p []string) error {
			b, err := os.ReadFile(p[1])
			if err != nil {
				return err
			}
			return os.WriteFile(p[0], b, 0o600)
		},
		"cut short": func(p []string) error { return os.Truncate(p[len(p)-1], 700) },
		"zeros":     func(p []string) error { return os.WriteFile(p[len(p)-1], make([]byte, 4096), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			broken := *r
			broken.o.Dir = filepath.Join(copyDir(t, r.o.Dir))
			if err := change(segmentPaths(t, broken.o.Dir, src)); err != nil {
				t.Fatal(err)
			}
			_, err := Open(broken.o)
			if c, ok := errors.AsType[*segment.CorruptError](err); !ok || c.Source != src || c.Hint() == "" {
				t.Fatalf("open: %v", err)
			}
			if list := broken.repair(t, false); len(list) != 1 || list[0].Source != src || list[0].Own {
				t.Fatalf("under repair: %+v", list)
			}
			a, stop := start(t, broken.o)
			if a.Source().Inc != 1 {
				t.Fatal("the own chain was not damaged, and has a new incarnation")
			}
			broken.mend(t, a)
			if !sameHead(a.Head(src), r.heads[src]) {
				t.Fatalf("the chain is back up to %d", a.Head(src).Seq)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if _, err := audit.Verify(t.Context(), audit.VerifyOptions{Dir: broken.o.Dir, Cluster: testCluster, KeyOf: pubFor, Self: "a"}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestRotOfTheLastGroupIsFound flips bits in the last group of a chain that was
// closed, or quiet for a second: it is not taken for a torn write.
func TestRotOfTheLastGroupIsFound(t *testing.T) {
	o := testOptions(t.TempDir(), "n1")
	l, stop := start(t, o)
	mustAppend(t, l, note(1))
	mustAppend(t, l, note(2))
	eventually(t, "a quiet second", func() bool { _, err := os.Stat(store.MarkPath(o.Dir, 1)); return err == nil })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	seg := lastSegment(l)
	fresh, err := os.ReadFile(seg.Path)
	if err != nil {
		t.Fatal(err)
	}
	begin, _, err := segment.ReadHeader(bytes.NewReader(fresh), seg.Size)
	if err != nil {
		t.Fatal(err)
	}
	last, end := begin, seg.Size
	if fresh, err := os.ReadFile(seg.Path); err != nil || !bytes.Contains(fresh[last:end], []byte(`"v2"`)) {
		t.Fatal(err)
	}
	for at := end - 150; at < end; at += 7 {
		dir := copyDir(t, o.Dir)
		path := segmentPaths(t, dir, l.Source())[0]
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b[at] ^= 4
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		broken := o
		broken.Dir = dir
		_, err = Open(broken)
		c, ok := errors.AsType[*segment.CorruptError](err)
		if !ok || c.Segment != path || c.Seq != 2 || c.Offset > at {
			t.Fatalf("bit %d flipped: %v", at, err)
		}
		if _, err := audit.Verify(t.Context(), audit.VerifyOptions{Dir: dir, Cluster: testCluster, KeyOf: pubFor}); err == nil {
			t.Fatalf("bit %d flipped: verify finds nothing", at)
		}
	}
	// A damaged watermark is of no use, and of no harm.
	for i := range uint64(2) {
		if err := os.WriteFile(store.MarkPath(o.Dir, i), []byte("junk"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// TestLostLog removes the whole log of a host. A check and a daemon see that it was
// there; after a repair it has what the others have, and goes on in a chain that it
// never had.
func TestLostLog(t *testing.T) {
	r := newRepairRig(t)
	verify := func() error {
		_, err := audit.Verify(t.Context(), audit.VerifyOptions{Dir: r.o.Dir, Cluster: testCluster, KeyOf: pubFor, Self: "a", Used: true})
		return err
	}
	if err := verify(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(r.o.Dir); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{verify(), audit.Lost(r.o.Dir)} {
		if c, ok := errors.AsType[*segment.CorruptError](err); !ok || !strings.Contains(c.Hint(), "not mounted") {
			t.Fatalf("a lost log: %v", err)
		}
	}
	now := time.Unix(1_700_000_000, 0)
	done, err := audit.Repair(t.Context(), audit.RepairOptions{
		Dir: r.o.Dir, Cluster: testCluster, Self: "a", KeyOf: pubFor, Aside: filepath.Join(r.o.Dir, "..", "damaged"), Used: true, Now: now,
	})
	if err != nil || len(done.Chains) != 1 || !done.Chains[0].Own {
		t.Fatalf("%+v, %v", done, err)
	}
	if err := verify(); err != nil {
		t.Fatal(err)
	}
	a, _ := start(t, r.o)
	if want := (event.SourceID{Node: "a", Inc: uint64(now.Unix()) + 1}); a.Source() != want {
		t.Errorf("it goes on as %s, want %s", a.Source(), want)
	}
	mustAppend(t, a, note(200))
	r.mend(t, a)
	if err := a.Sync(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	for _, h := range r.b.Heads() {
		if got := a.Head(h.Source); got.Seq != h.Seq {
			t.Errorf("%s is here up to %d, the other host has %d", h.Source, got.Seq, h.Seq)
		}
	}
}

// TestOpenedLogIsNotLost: a daemon may end before it wrote anything.
func TestOpenedLogIsNotLost(t *testing.T) {
	o := testOptions(t.TempDir(), "a")
	_, stop := start(t, o)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := audit.Lost(o.Dir); err != nil {
		t.Fatal(err)
	}
}
