package eventlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/eventlog/snapshot"
	"github.com/skein-project/skein/eventlog/state"
)

// alone is a log that is its own only voter, and so takes snapshots by itself.
func alone(dir string) Options {
	o := snapOptions(dir, "a")
	o.SnapshotCheck = time.Hour // only when there is something to do
	return o
}

// live runs l until f returns. It returns what Run does.
func live(l *Log, f func(ctx context.Context)) error {
	l.SetVoters(voters("a"))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	f(ctx)
	cancel()
	return <-done
}

// begins opens the term of a lone voter, if none is open.
func begins(ctx context.Context, l *Log) error {
	var ok bool
	l.View(func(s *state.State) { _, ok = s.LastTerm() })
	if ok {
		return nil
	}
	_, err := l.Append(ctx, []event.Draft{{Term: 1, Kind: event.KindTermStart, Body: event.TermStart{
		Term: 1, Voters: []cluster.NodeID{"a"}, Epoch: 1, ConfigTerm: 1,
	}}})
	return err
}

// TestPowerLossOfSnapshots cuts the power at any operation of taking snapshots
// and of dropping what they hold. The log opens again, with every acknowledged
// event in it or in a snapshot, and the state is that of all events.
func TestPowerLossOfSnapshots(t *testing.T) {
	seeds := uint64(6)
	if os.Getenv("SKEIN_PROVE") != "" {
		seeds = 400
	}
	first := uint64(1)
	if s := os.Getenv("SKEIN_SEED"); s != "" {
		if _, err := fmt.Sscan(s, &first); err != nil {
			t.Fatal(err)
		}
		seeds = 1
	}
	var dropped, taken uint64
	for seed := first; seed < first+seeds; seed++ {
		d, n, err := snapshotLife(t, seed)
		if err != nil {
			t.Fatalf("seed %d: %v\nreplay: SKEIN_SEED=%d go test -run TestPowerLossOfSnapshots ./eventlog", seed, err, seed)
		}
		dropped, taken = dropped+d, taken+n
	}
	if dropped == 0 || taken == 0 {
		t.Fatalf("%d events dropped, %d snapshots taken: nothing was tried", dropped, taken)
	}
	t.Logf("%d disks, %d snapshots, %d events dropped, none lost", seeds, taken, dropped)
}

func snapshotLife(t *testing.T, seed uint64) (dropped, taken uint64, err error) {
	rng := rand.New(rand.NewPCG(seed, 2))
	disk := newPowerFS(rng)
	o := alone(t.TempDir())
	if seed%3 == 0 {
		o.ArchiveDir = filepath.Join(o.Dir, "..", "archive")
	}
	acked := map[uint64]cluster.Hash{}
	for round := range 5 {
		disk.left = 20 + rng.IntN(250)
		if round == 4 {
			disk.left = -1
		}
		o.FS = disk
		l, err := Open(o)
		if err == nil {
			err = live(l, func(ctx context.Context) { busy(ctx, l, rng, acked) })
		}
		if err != nil && !errors.Is(err, errPower) {
			return 0, 0, err
		}
		if l != nil && err == nil && round == 4 {
			break
		}
		disk = disk.restart()
	}
	disk.left = -1
	o.FS = disk
	l, err := Open(o)
	if err != nil {
		return 0, 0, err
	}
	defer l.Close()
	src := l.Source()
	oldest := l.Oldest()[src]
	for seq, hash := range acked {
		if seq <= oldest {
			continue
		}
		if got, ok := hashAt(l, src, seq); !ok || got != hash {
			return 0, 0, fmt.Errorf("acknowledged event %d lost", seq)
		}
	}
	var applied uint64
	l.View(func(s *state.State) { applied, _, _ = s.Counts() })
	if head := l.Head(src).Seq; applied != head {
		return 0, 0, fmt.Errorf("state of %d events, the chain has %d", applied, head)
	}
	r, err := l.Verify(t.Context(), nil)
	if err != nil || r.StateHash != stateHash(l) {
		return 0, 0, fmt.Errorf("verify: %w, %+v", err, r)
	}
	return oldest, uint64(len(l.Snapshots().Kept)), nil
}

// busy appends and takes snapshots until the disk dies or it has done enough.
func busy(ctx context.Context, l *Log, rng *rand.Rand, acked map[uint64]cluster.Hash) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if begins(ctx, l) != nil {
		return
	}
	for range 12 {
		for range 4 + rng.IntN(12) {
			events, err := l.Append(ctx, []event.Draft{{Kind: event.KindHostStarted, Body: event.HostStarted{
				Version: string(bytes.Repeat([]byte("v"), rng.IntN(500))), Boot: rng.Uint64(),
			}}})
			if err != nil {
				return
			}
			for _, e := range events {
				acked[e.Seq] = e.Hash
			}
		}
		if _, err := l.TakeSnapshot(ctx, ""); errors.Is(err, errPower) || l.Err() != nil {
			return
		}
	}
}

// TestPowerLossWhileFetching cuts the power of a host that goes on from a
// fetched snapshot, at any operation, some times in a row. In the end it holds
// what the others hold.
func TestPowerLossWhileFetching(t *testing.T) {
	seeds := uint64(6)
	if os.Getenv("SKEIN_PROVE") != "" {
		seeds = 300
	}
	tr := newSnapTrio(t, nil)
	a := tr.logs["a"]
	work(t, a, 1, "early", 5)
	early := a.Head(a.Source()).Seq
	var old []*powerFS // disks that hold the beginning of the log
	for i := range 3 {
		if i == 1 {
			for seed := range seeds {
				disk := newPowerFS(rand.New(rand.NewPCG(seed, 3)))
				if seed%2 == 0 {
					fetchOn(t, tr, disk, func(l *Log) bool { return l.Head(a.Source()).Seq >= early })
				}
				old = append(old, disk)
			}
		}
		work(t, a, 1, fmt.Sprint("j", i), 60)
		tr.level(t, mustSnapshot(t, a).ID)
	}
	eventually(t, "segments dropped", func() bool { return a.Oldest()[a.Source()] > early+60 })
	for seed, disk := range old {
		for range 4 {
			disk.left = disk.rng.IntN(60)
			fetchOn(t, tr, disk, func(l *Log) bool { return newestID(l) == newestID(a) && l.Digest() == a.Digest() })
			disk = disk.restart()
		}
		disk.left = -1
		l := fetchOn(t, tr, disk, func(l *Log) bool { return newestID(l) == newestID(a) && l.Digest() == a.Digest() })
		if l == nil {
			t.Fatalf("disk %d: not level with the others", seed)
		}
		again := openOn(t, tr, disk)
		if again.Digest() != a.Digest() || stateHash(again) != stateHash(a) {
			t.Fatalf("disk %d: opened with another state", seed)
		}
		if _, err := again.Verify(t.Context(), nil); err != nil {
			t.Fatalf("disk %d: %v", seed, err)
		}
		_ = again.Close()
	}
}

func openOn(t *testing.T, tr *snapTrio, disk *powerFS) *Log {
	t.Helper()
	o := snapOptions(t.TempDir(), "d")
	o.Dir, o.FS, o.Dial = tr.t.TempDir(), disk, tr.net.dialer("d")
	disk.mu.Lock()
	if disk.home == "" {
		disk.home = o.Dir
	}
	o.Dir = disk.home
	disk.mu.Unlock()
	o.Peers = func() []cluster.NodeID { return []cluster.NodeID{"a", "b", "c"} }
	l, err := Open(o)
	if err != nil && !errors.Is(err, errPower) {
		t.Fatal(err)
	}
	return l
}

// fetchOn runs a host on a disk until ok or the power goes; nil: it went.
func fetchOn(t *testing.T, tr *snapTrio, disk *powerFS, ok func(*Log) bool) *Log {
	t.Helper()
	l := openOn(t, tr, disk)
	if l == nil {
		return nil
	}
	l.SetVoters(voters("a", "b", "c"))
	reached := false
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	dark := func() bool { disk.mu.Lock(); defer disk.mu.Unlock(); return disk.left == 0 }
	deadline := time.Now().Add(patience)
	for !reached && !dark() && l.Err() == nil {
		if time.Now().After(deadline) {
			t.Fatalf("neither dark nor done: %+v", l.Snapshots())
		}
		time.Sleep(time.Millisecond)
		reached = ok(l)
	}
	cancel()
	if err := <-done; err != nil && !errors.Is(err, errPower) {
		t.Fatal(err)
	}
	if !reached {
		return nil
	}
	return l
}

// TestDamagedSnapshots opens logs whose newest snapshot is damaged in every
// way: they open from the one before, with the same state; if both are gone and
// events were dropped that is said and nothing changed; if none were dropped
// the log opens from its first event.
func TestDamagedSnapshots(t *testing.T) {
	o := alone(t.TempDir())
	o.RetainBytes = -1
	grow := func(o Options, rounds int) (hash cluster.Hash) {
		l, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		err = live(l, func(ctx context.Context) {
			if err := begins(ctx, l); err != nil {
				t.Error(err)
			}
			for i := range rounds {
				for j := range 40 {
					mustAppend(t, l, note(i*100+j))
				}
				mustSnapshot(t, l)
			}
			mustAppend(t, l, note(1), note(2))
			if o.RetainBytes > 0 {
				eventually(t, "segments dropped", func() bool { return len(l.Oldest()) > 0 })
			}
			hash = stateHash(l)
		})
		if err != nil {
			t.Fatal(err)
		}
		return hash
	}
	hash := grow(o, 3)
	files := func(dir string) []string {
		paths, err := filepath.Glob(filepath.Join(dir, segment.SnapshotDir, "*"+snapshot.Suffix))
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(paths)
		return paths
	}
	if n := len(files(o.Dir)); n != 2 {
		t.Fatalf("%d snapshots, want %d", n, 2)
	}
	opens := func(t *testing.T, dir string, kept int) *Log {
		t.Helper()
		o := alone(dir)
		o.RetainBytes = -1
		l, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if stateHash(l) != hash || len(l.Snapshots().Kept) != kept {
			t.Fatalf("state %s, %+v", stateHash(l), l.Snapshots())
		}
		return l
	}
	damage := map[string]func(t *testing.T, path string){
		"cut short": func(t *testing.T, path string) { check(t, os.Truncate(path, 100)) },
		"empty":     func(t *testing.T, path string) { check(t, os.Truncate(path, 0)) },
		"gone":      func(t *testing.T, path string) { check(t, os.Remove(path)) },
		"garbage":   func(t *testing.T, path string) { check(t, os.WriteFile(path, []byte("garbage"), 0o600)) },
		"longer": func(t *testing.T, path string) {
			b, err := os.ReadFile(path)
			check(t, err)
			check(t, os.WriteFile(path, append(b, 0), 0o600))
		},
		"bit of the state": func(t *testing.T, path string) { flipBit(t, path, -20) },
		"bit of the text":  func(t *testing.T, path string) { flipBit(t, path, 60) },
		"another's name": func(t *testing.T, path string) {
			b, err := os.ReadFile(files(filepath.Dir(filepath.Dir(path)))[0])
			check(t, err)
			check(t, os.WriteFile(path, b, 0o600))
		},
	}
	for name, f := range damage {
		t.Run(name, func(t *testing.T) {
			dir := copyDir(t, o.Dir)
			paths := files(dir)
			f(t, paths[1])
			l := opens(t, dir, 1)
			// Where the events still are it is made again.
			check(t, live(l, func(context.Context) {
				eventually(t, "the newest snapshot is made again", func() bool { return len(l.Snapshots().Kept) == 2 })
			}))
			f(t, files(dir)[1])
			if name != "gone" && name != "another's name" {
				f(t, files(dir)[0])
				_ = opens(t, dir, 0).Close()
			}
			if _, err := audit.Verify(t.Context(), audit.VerifyOptions{Dir: dir, Cluster: testCluster, Self: "a", KeyOf: pubFor}); name != "gone" && err == nil {
				t.Error("verified")
			}
		})
	}
	t.Run("dropped", func(t *testing.T) {
		o := alone(t.TempDir())
		grow(o, 4)
		for _, p := range files(o.Dir) {
			flipBit(t, p, -20)
		}
		_, err := Open(o)
		if corrupt, ok := errors.AsType[*segment.CorruptError](err); !ok || corrupt.Source.Node != "a" {
			t.Fatalf("%v, want a *segment.CorruptError", err)
		}
	})
	t.Run("manifest", func(t *testing.T) {
		o := alone(t.TempDir())
		grow(o, 4)
		flipBit(t, filepath.Join(o.Dir, segment.SnapshotDir, "manifest"), 40)
		l, err := Open(o) // by the copy
		check(t, err)
		check(t, l.Close())
		for _, name := range []string{"manifest", "manifest.copy"} {
			flipBit(t, filepath.Join(o.Dir, segment.SnapshotDir, name), 40)
		}
		if _, err := Open(o); !errors.As(err, new(*segment.CorruptError)) {
			t.Fatalf("%v, want a *segment.CorruptError", err)
		}
	})
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// flipBit changes one bit of a file, from its end if at is negative.
func flipBit(t *testing.T, path string, at int) {
	t.Helper()
	b, err := os.ReadFile(path)
	check(t, err)
	if at < 0 {
		at += len(b)
	}
	b[at] ^= 1
	check(t, os.WriteFile(path, b, 0o600))
}
