package eventlog

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/eventlog/snapshot"
	"github.com/skein-project/skein/eventlog/snapshots"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/store"
)

// snapOptions are of a host that takes snapshots only when it is told to, and
// drops everything it may.
func snapOptions(dir string, self cluster.NodeID) Options {
	o := testOptions(dir, self)
	o.FS = quickFS()
	o.SnapshotEvents, o.SnapshotCheck = -1, 20*time.Millisecond
	o.SegmentSize, o.Prealloc = 4096, 2048
	o.RetainBytes = 1
	o.PullEvery = 20 * time.Millisecond
	return o
}

// snapTrio is three voters, of which a holds term 1.
type snapTrio struct {
	t    *testing.T // the whole test: logs outlive subtests
	net  *network
	logs map[cluster.NodeID]*Log
	stop map[cluster.NodeID]func() error
	opts map[cluster.NodeID]Options
}

func newSnapTrio(t *testing.T, change func(*Options)) *snapTrio {
	t.Helper()
	tr := &snapTrio{t: t, net: newNetwork(t), logs: map[cluster.NodeID]*Log{}, stop: map[cluster.NodeID]func() error{}, opts: map[cluster.NodeID]Options{}}
	for _, id := range []cluster.NodeID{"a", "b", "c"} {
		o := snapOptions(t.TempDir(), id)
		if change != nil {
			change(&o)
		}
		tr.opts[id] = o
		tr.up(t, id)
	}
	tr.begin(t, "a", 1)
	return tr
}

// up starts a host, again perhaps.
func (tr *snapTrio) up(t *testing.T, id cluster.NodeID) *Log {
	t.Helper()
	o := tr.opts[id]
	o.Dial = tr.net.dialer(id)
	o.Peers = func() []cluster.NodeID { return tr.net.peers() }
	l, stop := start(tr.t, o)
	l.SetVoters(voters("a", "b", "c"))
	tr.logs[id], tr.stop[id] = l, stop
	tr.net.add(id, l)
	return l
}

func (n *network) peers() []cluster.NodeID {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []cluster.NodeID
	for id := range n.logs {
		out = append(out, id)
	}
	return out
}

// begin opens a term.
func (tr *snapTrio) begin(t *testing.T, id cluster.NodeID, term cluster.Term) {
	t.Helper()
	l := tr.logs[id]
	mustAppend(t, l, event.Draft{Term: term, Kind: event.KindTermStart, Body: event.TermStart{
		Term: term, Cut: l.Cut(), Voters: []cluster.NodeID{"a", "b", "c"}, Epoch: 1, ConfigTerm: 1,
	}})
}

// work submits a job and appends n events that change the state.
func work(t testing.TB, l *Log, term cluster.Term, name string, n int) {
	t.Helper()
	spec := job.Spec{
		Key: name, Executor: job.ExecutorWASM, Artefact: cluster.Hash{1}, Iterations: uint64(n), Chunk: 1,
		Attempts: 4, TimeoutSeconds: 60, MemoryBytes: job.MinMemoryBytes,
	}
	id := job.NewID("o", name)
	mustAppend(t, l, event.Draft{Term: term, Kind: event.KindJobSubmitted, Body: event.JobSubmitted{Job: id, Spec: spec, Owner: "o", Chunks: n}})
	for i := range n {
		mustAppend(t, l, event.Draft{Term: term, Kind: event.KindChunksAssigned, Body: event.ChunksAssigned{
			Job: id, Assignments: []job.Attempt{{Chunk: i, Number: 1, Worker: "b"}},
		}})
	}
}

func mustSnapshot(t testing.TB, l *Log) snapshots.Info {
	t.Helper()
	return mustSnapshotWithin(t, l, patience)
}

func newestID(l *Log) cluster.Hash {
	if s := l.Snapshots(); len(s.Kept) > 0 {
		return s.Kept[len(s.Kept)-1].ID
	}
	return cluster.Hash{}
}

// level waits until all logs hold the same and have adopted the same snapshot.
func (tr *snapTrio) level(t testing.TB, want cluster.Hash) {
	t.Helper()
	eventually(t, "all hosts hold the same and have made the snapshot", func() bool {
		same := tr.logs["a"].Digest() // of one moment: each host has its own events
		for _, l := range tr.logs {
			if newestID(l) != want || l.Digest() != same {
				return false
			}
		}
		return true
	})
	for id, l := range tr.logs {
		if stateHash(l) != stateHash(tr.logs["a"]) {
			t.Fatalf("%s and a hold the same events and have different states", id)
		}
	}
}

// TestSnapshotLife takes snapshots, drops what they hold, opens the log from
// them, and lets hosts join that never saw what was dropped.
func TestSnapshotLife(t *testing.T) {
	tr := newSnapTrio(t, nil)
	a := tr.logs["a"]
	var first snapshots.Info
	for i := range 3 {
		work(t, a, 1, fmt.Sprintf("j%d", i), 60)
		mustAppend(t, tr.logs["b"], note(i))
		info := mustSnapshot(t, a)
		if i == 0 {
			first = info
		}
		if len(info.Signers) < 2 || info.Events <= uint64(60*i) {
			t.Fatalf("snapshot %+v", info)
		}
		tr.level(t, info.ID)
	}
	if first.ID == newestID(a) {
		t.Fatal("no new snapshot")
	}
	src := a.Source()
	for id, l := range tr.logs {
		eventually(t, "segments dropped", func() bool { return l.Oldest()[src] > 60 })
		if got := segmentPaths(t, tr.opts[id].Dir, src); len(got) == 0 {
			t.Fatal("no segment left")
		}
		var gone *store.CompactedError
		for _, err := range l.Read(src, 1) {
			if !errors.As(err, &gone) || gone.Oldest[src] != l.Oldest()[src] {
				t.Fatalf("%s: reading what was dropped: %v", id, err)
			}
			break
		}
	}

	mustRun(t, "restart", func(t *testing.T) {
		before := stateHash(tr.logs["b"])
		if err := tr.stop["b"](); err != nil {
			t.Fatal(err)
		}
		b := tr.up(t, "b")
		if stateHash(b) != before {
			t.Fatal("another state after the restart")
		}
		work(t, a, 1, "after", 5)
		tr.level(t, newestID(a))
	})

	mustRun(t, "newcomer", func(t *testing.T) {
		tr.opts["d"] = snapOptions(tr.t.TempDir(), "d")
		d := tr.up(t, "d")
		tr.level(t, newestID(a))
		mustAppend(t, d, note(1))
		work(t, a, 1, "again", 40)
		info := mustSnapshot(t, a)
		tr.level(t, info.ID)
		if err := tr.stop["d"](); err != nil {
			t.Fatal(err)
		}
		tr.up(t, "d")
		tr.level(t, info.ID)
	})

	mustRun(t, "lagging", func(t *testing.T) {
		if err := tr.stop["c"](); err != nil {
			t.Fatal(err)
		}
		tr.net.add("c", nil)
		delete(tr.logs, "c")
		for i := range 3 {
			work(t, a, 1, fmt.Sprintf("lag%d", i), 60)
			tr.level(t, mustSnapshot(t, a).ID)
		}
		eventually(t, "segments dropped", func() bool { return a.Oldest()[src] > 300 })
		tr.up(t, "c")
		tr.level(t, newestID(a))
	})

	mustRun(t, "new term", func(t *testing.T) {
		c := tr.logs["c"]
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := c.CatchUp(ctx, 0, []cluster.NodeID{"a", "b", "c"}, 2); err != nil {
			t.Fatal(err)
		}
		tr.begin(t, "c", 2)
		work(t, c, 2, "second", 10)
		eventually(t, "a knows term 2", func() bool {
			var term state.Term
			a.View(func(s *state.State) { term, _ = s.LastTerm() })
			return term.Term == 2
		})
		if _, err := a.TakeSnapshot(t.Context(), ""); !errors.Is(err, snapshots.ErrNotHolder) {
			t.Fatalf("a takes a snapshot in c's term: %v", err)
		}
		tr.level(t, mustSnapshot(t, c).ID)
	})
	mustRun(t, "verify and replay", func(t *testing.T) {
		for id, l := range tr.logs {
			report, err := l.Verify(t.Context(), nil)
			if err != nil || report.StateHash != stateHash(l) || report.Dropped == 0 || report.Signers < 2 {
				t.Fatalf("%s: %+v, %v", id, report, err)
			}
			d, err := audit.OpenDir(audit.VerifyOptions{Dir: tr.opts[id].Dir, Cluster: testCluster, Self: id, KeyOf: pubFor})
			if err != nil {
				t.Fatal(err)
			}
			if _, r, err := d.ReplayAt(t.Context(), audit.At{}); err != nil || r.StateHash != stateHash(l) {
				t.Fatalf("%s: replay %+v, %v", id, r, err)
			}
			if _, _, err := d.ReplayAt(t.Context(), audit.At{Clock: 1}); !errors.Is(err, store.ErrCompacted) {
				t.Fatalf("%s: replay of what was dropped: %v", id, err)
			}
		}
	})
	if s := a.Snapshots(); s.Mismatch != "" || len(s.Kept) != 2 || s.RefusedEvents != 0 {
		t.Fatalf("status %+v", s)
	}
	mustRun(t, "what reaches below is refused and told", func(t *testing.T) {
		blind := event.Event{
			Source: event.SourceID{Node: "z", Inc: 1}, Seq: 1, HLC: 1 << 60, Term: 99, Kind: event.KindTermStart, Body: []byte(`{"term":99}`),
		}
		before := stateHash(a)
		a.fold.mu.Lock()
		err := a.fold.applyLocked([]event.Event{blind})
		a.fold.mu.Unlock()
		s := a.Snapshots()
		if err != nil || stateHash(a) != before || s.RefusedEvents != 1 || len(s.Refused) != 1 || s.Refused[0].Source != blind.Source {
			t.Fatalf("%v; %d refused, %+v", err, s.RefusedEvents, s.Refused)
		}
	})
}

func mustRun(t *testing.T, name string, f func(*testing.T)) {
	t.Helper()
	if !t.Run(name, f) {
		t.FailNow()
	}
}

// TestGoOnBesideALateTerm: a log goes on from a snapshot beyond which a late term
// start voids events that were folded before it.
func TestGoOnBesideALateTerm(t *testing.T) {
	tr := newSnapTrio(t, nil)
	a, b, c := tr.logs["a"], tr.logs["b"], tr.logs["c"]
	work(t, a, 1, "early", 3)
	taken := mustSnapshot(t, a)
	tr.level(t, taken.ID)
	cut := b.Cut()
	work(t, a, 1, "void", 3)
	mustAppend(t, b, event.Draft{Term: 2, Kind: event.KindTermStart, Body: event.TermStart{
		Term: 2, Cut: cut, Voters: []cluster.NodeID{"a", "b", "c"}, Epoch: 1, ConfigTerm: 1,
	}})
	tr.level(t, taken.ID)
	want := stateHash(c)
	files := snapshots.Files{FS: c.o.FS, Dir: c.o.Dir, Cluster: c.o.Cluster}
	snap, _ := newestOf(t, c)
	_, st, err := files.Load(snapshot.FileName(snap))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.snaps.GoOnFrom(t.Context(), snap, st); err != nil {
		t.Fatal(err)
	}
	tr.level(t, taken.ID)
	if got := stateHash(c); got != want {
		t.Errorf("state %s, want %s", got, want)
	}
	// The writer itself meets the late term where nobody folded ahead of it.
	if _, st, err = files.Load(snapshot.FileName(snap)); err != nil {
		t.Fatal(err)
	}
	err = c.exclusive(t.Context(), ordinary, func(*store.Writer) (refused, failed error) { return nil, c.fold.goOn(st, snap) })
	if err != nil {
		t.Fatal(err)
	}
	tr.level(t, taken.ID)
	if got := stateHash(c); got != want {
		t.Errorf("state %s, want %s", got, want)
	}
}
