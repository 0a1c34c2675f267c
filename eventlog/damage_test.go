package eventlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/eventlog/segment"
)

// TestDamageIsMendedAsTheErrorSays deletes, moves and flips bits of files of a
// stopped host's log, chosen by a seed, and then does only what the errors say:
// start, repair where the start is refused or the check of the log finds
// something, start again. Each time the host is level with the others in the end,
// and has the history that they have.
func TestDamageIsMendedAsTheErrorSays(t *testing.T) {
	rounds := uint64(12)
	if os.Getenv("SKEIN_PROVE") != "" {
		rounds = 100
	}
	first := uint64(1)
	if s := os.Getenv("SKEIN_SEED"); s != "" {
		if _, err := fmt.Sscan(s, &first); err != nil {
			t.Fatal(err)
		}
		rounds = 1
	}
	var trios [2]*snapTrio // one whose hosts retain everything, one whose hosts drop what they can
	done := map[string]int{}
	for seed := first; seed < first+rounds; seed++ {
		i := seed % 2
		if trios[i] == nil {
			trios[i] = stoppedTrio(t, i == 0)
		}
		rng := rand.New(rand.NewPCG(seed, 18))
		replay := fmt.Sprintf("replay: SKEIN_SEED=%d go test -run %s ./eventlog", seed, t.Name())
		done[damageRound(t, trios[i], rng, replay)]++
	}
	t.Logf("%d hosts damaged, all level with the others again: %v", rounds, done)
}

// stoppedTrio is a trio whose c is stopped.
func stoppedTrio(t *testing.T, all bool) *snapTrio {
	t.Helper()
	change := func(*Options) {}
	if all {
		change = keepAll
	}
	tr := grown(t, change)
	if !all {
		src := tr.logs["a"].Source()
		for _, l := range tr.logs {
			eventually(t, "segments dropped", func() bool { return l.Oldest()[src] > 60 })
		}
	}
	tr.down(t, "c")
	return tr
}

// damageRound damages a copy of c's log and follows the errors. It returns what it
// took.
func damageRound(t *testing.T, tr *snapTrio, rng *rand.Rand, replay string) (took string) {
	t.Helper()
	from := tr.opts["c"]
	defer func() { tr.opts["c"] = from }()
	o := from
	o.Dir, o.RetainBytes = copyDir(t, from.Dir), -1 // of what comes back it drops nothing
	tr.opts["c"] = o
	whole, err := Open(o)
	check(t, err)
	had := whole.Oldest()
	check(t, whole.Close())
	what := damage(t, rng, o.Dir)
	fail := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("%s: %s\n%s", what, fmt.Sprintf(format, args...), replay)
	}
	follow := func(err error) {
		t.Helper()
		corrupt, ok := errors.AsType[*segment.CorruptError](err)
		if !ok || !strings.Contains(corrupt.Hint(), "skein log repair") {
			fail("the error names no remedy: %v", err)
		}
		out, err := audit.Repair(t.Context(), audit.RepairOptions{
			Dir: o.Dir, Cluster: testCluster, Self: "c", KeyOf: pubFor, Aside: filepath.Join(o.Dir, "..", "damaged"), Now: time.Now(),
		})
		if err != nil || len(out.Chains)+len(out.Files) == 0 {
			fail("a repair after %v: %+v, %v", corrupt, out, err)
		}
	}
	took = "started as if nothing was"
	l, err := Open(o)
	if err != nil {
		took = "repaired after a refused start"
		follow(err)
		if l, err = Open(o); err != nil {
			fail("refused after the repair: %v", err)
		}
	}
	check(t, l.Close())
	if _, err := verifyDir(t, o); err != nil {
		took = "repaired after a check of the log"
		follow(err)
	}
	c := tr.up(t, "c")
	defer tr.down(t, "c")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if n, err := c.CheckOwnHead(ctx, []cluster.NodeID{"a", "b"}); err != nil || n != 2 {
		fail("%d hosts asked for the own chain: %v", n, err)
	}
	mustAppend(t, c, note(1))
	deadline := time.Now().Add(patience)
	a, b := tr.logs["a"], tr.logs["b"]
	for len(c.Repairing()) > 0 || c.Digest() != a.Digest() || c.Digest() != b.Digest() {
		if time.Now().After(deadline) {
			fail("not level with the others: %+v, %+v", c.Repairing(), c.Snapshots())
		}
		for _, peer := range []cluster.NodeID{"a", "b"} {
			_, _ = c.Mend(ctx, peer) // what is left counts
		}
		time.Sleep(time.Millisecond)
	}
	if stateHash(c) != stateHash(a) || len(c.Forks())+len(a.Forks()) > 0 {
		fail("state %s, want %s; forks %v", stateHash(c), stateHash(a), a.Forks())
	}
	for src, seq := range c.Oldest() {
		if others := max(a.Oldest()[src], b.Oldest()[src]); seq > max(others, had[src]) {
			fail("%s begins after %d, the others have it after %d, it was here after %d", src, seq, others, had[src])
		}
	}
	if _, err := c.Verify(t.Context(), nil); err != nil {
		fail("verify: %v", err)
	}
	return took
}

// damage deletes or moves a file or a directory of a log, or flips a bit. It says
// what it did.
func damage(t *testing.T, rng *rand.Rand, dir string) string {
	t.Helper()
	var files, dirs []string
	check(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil || path == dir || e.Name() == "LOCK":
		case e.IsDir():
			dirs = append(dirs, path)
		default:
			files = append(files, path)
		}
		return err
	}))
	path := files[rng.IntN(len(files))]
	name := func(p string) string { return strings.TrimPrefix(p, dir+"/") }
	switch rng.IntN(5) {
	case 0:
		check(t, os.Remove(path))
		return name(path) + " deleted"
	case 1:
		to := path + ".old"
		check(t, os.Rename(path, to))
		return name(path) + " renamed to " + name(to)
	case 2:
		to := filepath.Join(dirs[rng.IntN(len(dirs))], filepath.Base(path))
		check(t, os.Rename(path, to))
		return name(path) + " moved to " + name(to)
	case 3:
		path = dirs[rng.IntN(len(dirs))]
		check(t, os.RemoveAll(path))
		return name(path) + " deleted with all files"
	default:
		b, err := os.ReadFile(path)
		check(t, err)
		if len(b) == 0 {
			return name(path) + " left alone, since it is empty"
		}
		at := rng.IntN(len(b))
		b[at] ^= 1 << rng.IntN(8)
		check(t, os.WriteFile(path, b, 0o600))
		return fmt.Sprintf("a bit of byte %d of %s flipped", at, name(path))
	}
}
