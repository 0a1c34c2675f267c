package eventlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/eventlog/snapshot"
)

// tree returns what lies under dir, by path.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func sameTree(t testing.TB, before, after map[string]string) {
	t.Helper()
	for name, text := range before {
		if got, ok := after[name]; !ok || got != text {
			t.Errorf("%s: there %t, changed %t", name, ok, got != text)
		}
	}
	for name := range after {
		if _, ok := before[name]; !ok {
			t.Errorf("%s is new", name)
		}
	}
}

func repairDir(t testing.TB, o Options) audit.Repaired {
	t.Helper()
	out, err := audit.Repair(t.Context(), audit.RepairOptions{
		Dir: o.Dir, Cluster: testCluster, Self: o.Self, KeyOf: pubFor, Aside: filepath.Join(o.Dir, "..", "damaged"),
		Now: time.Unix(1_700_000_000, 0),
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func verifyDir(t testing.TB, o Options) (audit.Report, error) {
	t.Helper()
	return audit.Verify(t.Context(), audit.VerifyOptions{Dir: o.Dir, Cluster: testCluster, KeyOf: pubFor, Self: o.Self})
}

// mended fetches what a repair of id found missing, until nothing is.
func (tr *snapTrio) mended(t testing.TB, id cluster.NodeID) {
	t.Helper()
	l := tr.logs[id]
	eventually(t, "the log is whole again", func() bool {
		left := l.Repairing()
		for _, peer := range tr.net.peers() {
			if peer == id {
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			left, _ = l.Mend(ctx, peer) // what is left counts
			cancel()
		}
		return len(left) == 0
	})
}

// down stops a host.
func (tr *snapTrio) down(t testing.TB, id cluster.NodeID) {
	t.Helper()
	if err := tr.stop[id](); err != nil {
		t.Fatal(err)
	}
	tr.net.add(id, nil)
	delete(tr.logs, id)
}

// grown is a trio with a long log and two snapshots, of which c is stopped.
func grown(t *testing.T, change func(*Options)) *snapTrio {
	t.Helper()
	tr := newSnapTrio(t, change)
	for i := range 3 {
		work(t, tr.logs["a"], 1, fmt.Sprint("j", i), 60)
		mustAppend(t, tr.logs["b"], note(i))
		mustAppend(t, tr.logs["c"], note(i))
		if i > 0 {
			tr.level(t, mustSnapshot(t, tr.logs["a"]).ID)
		}
	}
	work(t, tr.logs["a"], 1, "late", 10)
	tr.level(t, newestID(tr.logs["a"]))
	return tr
}

func keepAll(o *Options) { o.RetainBytes = -1 }

// TestARefusedStartChangesNothing: a log that does not open stays as it was, torn
// tails and what an interrupted process left included, and opens when what was
// taken away is put back.
func TestARefusedStartChangesNothing(t *testing.T) {
	tr := grown(t, keepAll)
	o, src := tr.opts["c"], tr.logs["a"].Source()
	want := stateHash(tr.logs["c"])
	tr.down(t, "c")
	own := segmentPaths(t, o.Dir, event.SourceID{Node: "b", Inc: 1})
	f, err := os.OpenFile(own[len(own)-1], os.O_APPEND|os.O_WRONLY, 0)
	check(t, err)
	_, err = f.WriteString("torn")
	check(t, errors.Join(err, f.Close()))
	check(t, os.WriteFile(filepath.Join(o.Dir, segment.SnapshotDir, "x.tmp"), []byte("x"), 0o600))
	taken := map[string]string{}
	for _, path := range segmentPaths(t, o.Dir, src) {
		taken[path] = filepath.Join(t.TempDir(), "away")
		check(t, os.Rename(path, taken[path]))
	}
	before := tree(t, o.Dir)
	_, err = Open(o)
	c, ok := errors.AsType[*segment.CorruptError](err)
	if !ok || c.Source != src || c.Seq != 1 {
		t.Fatalf("open: %v", err)
	}
	if _, err := verifyDir(t, o); err == nil || !errors.As(err, &c) || c.Source != src {
		t.Errorf("verify: %v", err)
	}
	sameTree(t, before, tree(t, o.Dir))
	for path, away := range taken {
		check(t, os.Rename(away, path))
	}
	l, err := Open(o)
	check(t, err)
	defer l.Close()
	if got := stateHash(l); got != want || len(l.Oldest()) != 0 {
		t.Errorf("opened with state %s, want %s; the oldest events are %v", got, want, l.Oldest())
	}
}

// TestDeletedChainsComeBack deletes all segments of a chain, with or without its
// directory, of this host and of another: verify says it, a repair knows it, and
// all of it comes back from the others.
func TestDeletedChainsComeBack(t *testing.T) {
	for _, node := range []cluster.NodeID{"a", "c"} {
		for _, dir := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, directory %t", node, dir), func(t *testing.T) {
				tr := grown(t, keepAll)
				o, src := tr.opts["c"], event.SourceID{Node: node, Inc: 1}
				head := tr.logs["c"].Head(src)
				tr.down(t, "c")
				for _, path := range segmentPaths(t, o.Dir, src) {
					check(t, os.Remove(path))
				}
				if dir {
					check(t, os.Remove(filepath.Join(o.Dir, segment.SourceDir(src))))
				}
				if _, err := Open(o); err == nil {
					t.Fatal("opened")
				}
				if _, err := verifyDir(t, o); err == nil {
					t.Fatal("verified")
				}
				list := repairDir(t, o).Chains
				if len(list) != 1 || list[0].Source != src || list[0].Kept != 0 || list[0].Known != head.Seq || list[0].Own != (node == "c") {
					t.Fatalf("under repair: %+v", list)
				}
				c := tr.up(t, "c")
				mustAppend(t, c, note(100))
				tr.mended(t, "c")
				tr.level(t, newestID(tr.logs["a"]))
				if !sameHead(c.Head(src), head) || len(c.Oldest()) != 0 {
					t.Errorf("%s is back up to %d of %d, oldest %v", src, c.Head(src).Seq, head.Seq, c.Oldest())
				}
				if r, err := c.Verify(t.Context(), nil); err != nil || r.Snapshots != 2 || r.Dropped != 0 {
					t.Errorf("verify: %+v, %v", r, err)
				}
			})
		}
	}
}

// TestRepairedChainIsFetchedFromTheCut damages a segment that a newer snapshot
// holds: the events come back from the hosts that have them.
func TestRepairedChainIsFetchedFromTheCut(t *testing.T) {
	tr := grown(t, keepAll)
	o, src := tr.opts["c"], tr.logs["a"].Source()
	newest, _ := newestOf(t, tr.logs["c"])
	tr.down(t, "c")
	path := segmentPaths(t, o.Dir, src)[1]
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 { // how long it is depends on what was appended at once
		flipBit(t, path, int(info.Size())/2+i)
	}
	if _, err := verifyDir(t, o); err == nil {
		t.Fatal("verified")
	}
	list := repairDir(t, o).Chains
	if len(list) != 1 || list[0].Kept == 0 || list[0].Kept >= snapshot.HeadOf(newest, src).Seq {
		t.Fatalf("under repair: %+v", list)
	}
	if r, err := verifyDir(t, o); err != nil || r.Snapshots != 2 {
		t.Errorf("verify after the repair: %+v, %v", r, err)
	}
	c := tr.up(t, "c")
	tr.mended(t, "c")
	tr.level(t, newestID(tr.logs["a"]))
	if len(c.Oldest()) != 0 {
		t.Errorf("the oldest events are %v", c.Oldest())
	}
	tr.down(t, "c")
	if r, err := verifyDir(t, o); err != nil || r.Dropped != 0 {
		t.Errorf("verify: %+v, %v", r, err)
	}
	tr.up(t, "c")
	tr.level(t, newestID(tr.logs["a"]))
}

// TestRepairWhereNobodyHasTheEvents: what no host retains is what the snapshot is
// for.
func TestRepairWhereNobodyHasTheEvents(t *testing.T) {
	tr := grown(t, func(o *Options) {
		if o.Self == "c" {
			o.RetainBytes = -1
		}
	})
	src := tr.logs["a"].Source()
	for _, id := range []cluster.NodeID{"a", "b"} {
		eventually(t, "segments dropped", func() bool { return tr.logs[id].Oldest()[src] > 60 })
	}
	o := tr.opts["c"]
	tr.down(t, "c")
	check(t, os.Remove(segmentPaths(t, o.Dir, src)[0]))
	if list := repairDir(t, o).Chains; len(list) != 1 {
		t.Fatalf("under repair: %+v", list)
	}
	c := tr.up(t, "c")
	tr.mended(t, "c")
	tr.level(t, newestID(tr.logs["a"]))
	if c.Oldest()[src] == 0 {
		t.Error("events are back that nobody has")
	}
	if _, err := c.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// TestSnapshotsOfOthersAreTheWayBack: where events were dropped and both snapshots
// are gone or damaged, the state comes from another host, and the events that are
// here stay.
func TestSnapshotsOfOthersAreTheWayBack(t *testing.T) {
	for name, change := range map[string]func(*testing.T, string){
		"gone":    func(t *testing.T, path string) { check(t, os.Remove(path)) },
		"damaged": func(t *testing.T, path string) { flipBit(t, path, -20) },
	} {
		t.Run(name, func(t *testing.T) {
			tr := grown(t, nil)
			c, src := tr.logs["c"], tr.logs["a"].Source()
			eventually(t, "segments dropped", func() bool { return c.Oldest()[src] > 60 })
			o := tr.opts["c"]
			tr.down(t, "c")
			oldest := c.Oldest()[src]
			paths, err := filepath.Glob(filepath.Join(o.Dir, segment.SnapshotDir, "*"+snapshot.Suffix))
			if err != nil || len(paths) != 2 {
				t.Fatalf("%d snapshots, %v", len(paths), err)
			}
			for _, p := range paths {
				change(t, p)
			}
			if _, err := Open(o); !errors.As(err, new(*segment.CorruptError)) {
				t.Fatalf("open: %v", err)
			}
			list := repairDir(t, o).Chains
			if len(list) != 1 || !list[0].State {
				t.Fatalf("under repair: %+v", list)
			}
			if again := repairDir(t, o).Chains; len(again) != 1 {
				t.Fatalf("a second repair: %+v", again)
			}
			c = tr.up(t, "c")
			if got := c.Source(); got.Inc != 1 {
				t.Errorf("own chain is %s", got)
			}
			mustAppend(t, c, note(7))
			tr.mended(t, "c")
			tr.level(t, newestID(tr.logs["a"]))
			if got := c.Oldest()[src]; got != oldest {
				t.Errorf("events from %d on are here, were from %d on", got+1, oldest+1)
			}
			if _, err := c.Verify(t.Context(), nil); err != nil {
				t.Error(err)
			}
			tr.down(t, "c")
			tr.up(t, "c")
			tr.level(t, newestID(tr.logs["a"]))
		})
	}
}

// TestVerifyReadsEverySnapshot flips bits in the older snapshot of a log that has
// all events.
func TestVerifyReadsEverySnapshot(t *testing.T) {
	tr := grown(t, keepAll)
	o := tr.opts["c"]
	tr.down(t, "c")
	paths, err := filepath.Glob(filepath.Join(o.Dir, segment.SnapshotDir, "*"+snapshot.Suffix))
	if err != nil || len(paths) != 2 {
		t.Fatalf("%d snapshots, %v", len(paths), err)
	}
	info, err := os.Stat(paths[0])
	check(t, err)
	for i := range int64(12) {
		at := int(i * (info.Size() - 1) / 11)
		flipBit(t, paths[0], at)
		if _, err := verifyDir(t, o); !errors.As(err, new(*segment.CorruptError)) {
			t.Errorf("bit of byte %d flipped: %v", at, err)
		}
		flipBit(t, paths[0], at)
	}
	if r, err := verifyDir(t, o); err != nil || r.Snapshots != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestRepairSetsFilesAside damages what is no chain, and puts into the log what
// does not belong there: a repair moves it away, and the log opens as it was.
func TestRepairSetsFilesAside(t *testing.T) {
	tr := grown(t, nil)
	c, src := tr.logs["c"], tr.logs["a"].Source()
	eventually(t, "segments dropped", func() bool { return c.Oldest()[src] > 60 })
	tr.down(t, "c")
	from := tr.opts["c"]
	for name, tc := range map[string]struct {
		file   string
		change func(t *testing.T, path string)
		opens  bool // without a repair, too
	}{
		"manifest":              {"snapshots/manifest", func(t *testing.T, p string) { flipBit(t, p, 60) }, true},
		"manifest gone":         {"snapshots/manifest", func(t *testing.T, p string) { check(t, os.Remove(p)) }, true},
		"stray directory":       {"old", func(t *testing.T, p string) { check(t, os.Mkdir(p, 0o700)) }, false},
		"stray file in a chain": {"a.1/notes.txt", func(t *testing.T, p string) { check(t, os.WriteFile(p, nil, 0o600)) }, false},
		"proof": {"equivocation/b.1.proof", func(t *testing.T, p string) {
			check(t, os.MkdirAll(filepath.Dir(p), 0o700))
			check(t, os.WriteFile(p, []byte("junk"), 0o600))
		}, true},
		"repairs": {"repair.json", func(t *testing.T, p string) { check(t, os.WriteFile(p, []byte("{"), 0o600)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := from
			o.Dir = copyDir(t, from.Dir)
			tc.change(t, filepath.Join(o.Dir, tc.file))
			l, err := Open(o)
			if err == nil {
				check(t, l.Close())
			}
			if (err == nil) != tc.opens {
				t.Fatalf("open: %v", err)
			}
			if err != nil && !errors.As(err, new(*segment.CorruptError)) {
				t.Errorf("open: %v, which has no hint", err)
			}
			out := repairDir(t, o)
			if name != "manifest gone" && name != "manifest" && len(out.Files) != 1 {
				t.Errorf("set aside: %+v", out.Files)
			}
			if again := repairDir(t, o); len(again.Files) != 0 {
				t.Errorf("set aside again: %+v", again.Files)
			}
			l, err = Open(o)
			check(t, err)
			defer l.Close()
			if stateHash(l) != stateHash(c) || l.Oldest()[src] != c.Oldest()[src] {
				t.Error("another log")
			}
			if own := l.Source(); (own.Inc == 2) != (name == "repairs") {
				t.Errorf("own chain is %s", own)
			}
			if _, err := verifyDir(t, o); err != nil {
				t.Error(err)
			}
		})
	}
}
