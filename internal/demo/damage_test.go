package demo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
)

// Counts of TestDamagedFiles. A shard is a cluster of its own.
const (
	damageShards = 4
	damageCases  = 25 // of each shard, with SKEIN_PROVE=1
	damageSteps  = 4  // of advice that is followed in one case
	damageTime   = 2 * time.Minute
)

// mishap is what happens to one file of a stopped host.
type mishap struct {
	h    *host
	what string // deleted, moved or flipped
	file string // below the state directory
}

func (m mishap) String() string { return fmt.Sprintf("%s of %s %s", m.file, m.h.name, m.what) }

// TestDamagedFiles deletes, moves and changes files of the state directory of a
// stopped host, as a seed says, and does then only what the host's errors say. It
// ends in the cluster again, with the history and the state that the others have,
// and computes what it computed before. A start that refuses changes nothing.
func TestDamagedFiles(t *testing.T) {
	parallel(t)
	shards, cases := 1, 5
	if proving() {
		shards, cases = damageShards, damageCases
	}
	for i := range shards {
		t.Run(fmt.Sprint("seed ", i+1), func(t *testing.T) {
			t.Parallel()
			damage(t, uint64(i+1), cases)
		})
	}
}

func damage(t *testing.T, seed uint64, cases int) {
	d, _ := startWith(t, 3, func(d *demo) {
		calm(d)
		if seed%2 == 0 { // with snapshots, and a log of which the beginning is dropped
			d.env = func(int, int) []string {
				return []string{"SKEIN_EVENTLOG_SEGMENT_BYTES=65536", "SKEIN_EVENTLOG_SNAPSHOT_EVENTS=150", "SKEIN_EVENTLOG_RETAIN_BYTES=1"}
			}
		}
	})
	w := &wrecker{t: t, d: d, ctx: t.Context(), rng: rand.New(rand.NewPCG(seed, 0)), root: filepath.Join(t.TempDir(), "root.json")}
	if out, errs, code := d.cli(w.ctx, d.hosts[0], "root", "export", "--out", w.root, "--config", d.hosts[0].config); code != 0 {
		t.Fatalf("root export: exit %d\n%s%s", code, out, errs)
	}
	w.compute()
	ends := map[string]int{}
	for i := range cases {
		began := time.Now()
		m, end := w.one()
		t.Logf("%d: %s: %s, %.1f s", i, m, end, time.Since(began).Seconds())
		ends[end]++
	}
	t.Logf("seed %d: %d cases, %v", seed, cases, ends)
}

// wrecker damages the hosts of one cluster.
type wrecker struct {
	t    *testing.T
	d    *demo
	ctx  context.Context
	rng  *rand.Rand
	root string // an export of the root key

	jobs int
	want map[string]api.Summary
	kept string // a copy of the state directory as it was, for what says "backup"
}

// compute runs the same job as always: whatever happened, its result is the same.
func (w *wrecker) compute() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, damageTime)
	defer cancel()
	spec, err := w.d.upload(ctx, filepath.Join(bin, "examples", "pi.wasm"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.jobs++
	spec.Key, spec.Iterations, spec.Chunk, spec.Seed = fmt.Sprint("again ", w.jobs), 12_000, 1000, 7
	j := finish(ctx, w.t, w.d.hosts[0], submit(ctx, w.t, w.d.hosts[0], spec).Job)
	if w.want == nil {
		w.want = j.Aggregates
	}
	if j.State != job.Completed || !reflect.DeepEqual(j.Aggregates, w.want) {
		w.t.Fatalf("job %d ended %s, %s: %v, before %v", w.jobs, j.State, j.Reason, j.Aggregates, w.want)
	}
}

// one is one case: damage, and what the errors say until the host is back.
func (w *wrecker) one() (m mishap, end string) {
	w.t.Helper()
	m.h = w.d.hosts[w.rng.IntN(len(w.d.hosts))]
	halt(w.t, m.h)
	w.kept = filepath.Join(w.t.TempDir(), "kept")
	w.do("cp", "-a", m.h.stateDir(), w.kept)
	m = w.hit(m)
	// How the host names the damage while it is down; it says nothing of what is well.
	doctor, _, _ := w.d.cli(w.ctx, m.h, "doctor", "--config", m.h.config)
	end = "by itself"
	for step := 0; ; step++ {
		before := digest(w.t, m.h.stateDir())
		from := w.logged(m.h, 0)
		if err := m.h.run(); err != nil {
			w.t.Fatal(err)
		}
		err := w.back(m)
		said := w.said(m.h, len(from))
		if err == nil {
			_, errs, code := w.d.cli(w.ctx, m.h, "log", "verify", "--state-dir", m.h.stateDir())
			if code != 0 && step < damageSteps {
				// A segment that a snapshot covers is not read at a start.
				halt(w.t, m.h)
				end = w.follow(m, errs)
				continue
			}
			if code != 0 {
				w.t.Fatalf("%s: the log is not good afterwards: %s", m, errs)
			}
			if w.mustName(m) && !strings.Contains(said, filepath.Base(m.file)) && !strings.Contains(doctor, filepath.Base(m.file)) && step == 0 {
				w.t.Fatalf("%s: nobody named it\n%s\n%s", m, said, doctor)
			}
			break
		}
		if m.h.alive() || step == damageSteps {
			w.t.Fatalf("%s: %v\n%s", m, err, said)
		}
		if after := digest(w.t, m.h.stateDir()); after != before {
			w.t.Fatalf("%s: a start that refused changed the state directory:\n%s\nbefore:\n%s\nafter:\n%s", m, said, before, after)
		}
		if !strings.Contains(doctor, " fail ") && step == 0 {
			w.t.Errorf("%s: the doctor finds nothing:\n%s", m, doctor)
		}
		end = w.follow(m, said)
	}
	if m.file == "root.key" { // as the error says; where it is gone, as after an export
		if out, errs, code := w.d.cli(w.ctx, m.h, "root", "import", w.root, "--config", m.h.config); code != 0 {
			w.t.Fatalf("root import: exit %d\n%s%s", code, out, errs)
		}
	}
	w.compute()
	return m, end
}

// hit does the damage.
func (w *wrecker) hit(m mishap) mishap {
	w.t.Helper()
	var files []string
	err := filepath.WalkDir(m.h.stateDir(), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "lock" {
			return err
		}
		name, err := filepath.Rel(m.h.stateDir(), path)
		if !strings.HasPrefix(name, "damaged") { // what was set aside is not used any more
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	m.file = files[w.rng.IntN(len(files))]
	path := filepath.Join(m.h.stateDir(), m.file)
	switch w.rng.IntN(4) {
	case 0:
		m.what = "deleted"
		err = os.Remove(path)
	case 1:
		m.what = "moved"
		to := path + ".moved"
		if w.rng.IntN(2) == 0 { // into another directory, or over another file
			to = filepath.Join(m.h.stateDir(), filepath.Dir(files[w.rng.IntN(len(files))]), filepath.Base(m.file)+".moved")
		}
		err = os.Rename(path, to)
	default:
		var text []byte
		text, err = os.ReadFile(path)
		if err != nil || len(text) == 0 {
			m.what = "deleted"
			err = errors.Join(err, os.Remove(path))
			break
		}
		used := len(bytes.TrimRight(text, "\x00"))
		at := w.rng.IntN(max(1, used))
		m.what = fmt.Sprintf("changed in bit %d of byte %d of %d", w.rng.IntN(8), at, len(text))
		text[at] ^= 1 << w.rng.IntN(8)
		// Another file: other hosts have the same compiled modules.
		err = errors.Join(os.Remove(path), os.WriteFile(path, text, 0o600))
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// mustName says whether damage of a file has to be told even where the host goes on
// by itself: of the small files, unless the file may be missing.
func (w *wrecker) mustName(m mishap) bool {
	gone := !strings.HasPrefix(m.what, "changed")
	switch m.file {
	case "identity.json", "records.json", "boot", "epoch":
		return true
	case "vote.json":
		return gone // of its two records the older one does not matter
	case "root.key", "endpoints.json", "seen.json":
		return !gone
	case "invites.json":
		return !gone // a host whose certificates the root key signed has issued none itself
	}
	return false
}

// back waits until the host is in the cluster again, with what the others have, and
// votes: what befalls the next one before that would leave one voter of two, which
// no host can mend by itself.
func (w *wrecker) back(m mishap) error {
	ctx, cancel := context.WithTimeout(w.ctx, damageTime)
	defer cancel()
	if err := m.h.await(ctx, "was in the cluster again", func(s api.Status) bool {
		return s.State == api.StateOK && s.Members.Alive == len(w.d.hosts) && s.Lease.Holder != "" &&
			s.Lease.Voters == len(w.d.hosts) && len(s.Lease.Abstaining) == 0
	}); err != nil {
		return fmt.Errorf("%w: %v", err, m.h.last.Reasons)
	}
	return m.h.await(ctx, "had what the others have", func(s api.Status) bool {
		for _, h := range w.d.hosts {
			other, err := h.api.Status(ctx)
			if err != nil || other.State != api.StateOK || other.Log.StateHash != s.Log.StateHash || other.Log.Events != s.Log.Events {
				return false
			}
		}
		return true
	})
}

// follow does what the error says, and names it. Every advice is one of these.
func (w *wrecker) follow(m mishap, said string) string {
	w.t.Helper()
	_, hint, ok := strings.Cut(said, "skein: hint: ")
	if !ok {
		w.t.Fatalf("%s: no hint:\n%s", m, said)
	}
	hint, _, _ = strings.Cut(hint, "\n")
	name := filepath.Base(m.file)
	switch {
	case strings.Contains(hint, "skein log repair"):
		if out, errs, code := w.d.cli(w.ctx, m.h, "log", "repair", "--config", m.h.config); code != 0 {
			w.t.Fatalf("%s: log repair: exit %d\n%s%s", m, code, out, errs)
		}
		return "log repair"
	case strings.HasPrefix(hint, "copy "+name+" from the state directory of another host"):
		i := slices.Index(w.d.hosts, m.h)
		other := w.d.hosts[(i+1)%len(w.d.hosts)]
		w.do("cp", "-a", filepath.Join(other.stateDir(), name), m.h.stateDir())
		return "copied from another host"
	case strings.HasPrefix(hint, "put "+name+" back from a backup"):
		w.do("cp", "-a", filepath.Join(w.kept, name), m.h.stateDir())
		return "from a backup"
	}
	w.t.Fatalf("%s: the hint is no instruction: %s\n%s", m, hint, said)
	return ""
}

func (w *wrecker) do(name string, args ...string) {
	w.t.Helper()
	if out, err := exec.CommandContext(w.ctx, name, args...).CombinedOutput(); err != nil {
		w.t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

// logged is the log of a host.
func (w *wrecker) logged(h *host, from int) []byte {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(h.dir, "log"))
	if err != nil {
		w.t.Fatal(err)
	}
	return text[from:]
}

func (w *wrecker) said(h *host, from int) string { return string(w.logged(h, from)) }

// digest lists the files of a directory with their content, in short.
func digest(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		fmt.Fprintf(&b, "%s %d %x\n", strings.TrimPrefix(path, dir), len(text), sha256.Sum256(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
