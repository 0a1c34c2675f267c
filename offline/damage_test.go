package offline

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/join/starts"
	"github.com/skein-project/skein/coord/store"
	"github.com/skein-project/skein/doctor"
	"github.com/skein-project/skein/eventlog"
	"github.com/skein-project/skein/internal/durable"
	"github.com/skein-project/skein/internal/statetest"
	"github.com/skein-project/skein/lease"
)

// mishaps are what can happen to a file, on a copy of the state directory.
var mishaps = map[string]func(name string) error{
	"deleted": os.Remove,
	"emptied": func(name string) error { return os.Truncate(name, 0) },
	"cut": func(name string) error {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		return os.Truncate(name, info.Size()/2)
	},
	"changed": func(name string) error {
		text, err := os.ReadFile(name)
		if err != nil || len(text) == 0 {
			return err
		}
		text[len(text)/3] ^= 4
		return os.WriteFile(name, text, 0o600)
	},
	"another's": func(name string) error { return os.WriteFile(name, []byte("{}\n"), 0o600) },
	"huge":      func(name string) error { return os.Truncate(name, 20<<20) },
	"a directory": func(name string) error {
		return errors.Join(os.Remove(name), os.Mkdir(name, 0o700))
	},
}

// TestDamageIsToldOnce: whatever happens to a file of a state directory, no error of
// the daemon's start, of the doctor or of a command names a path twice, or repeats a
// word.
func TestDamageIsToldOnce(t *testing.T) {
	cfg := statetest.Config(t)
	cfg.StateDir = stateWithAll(t)
	whole := cfg.StateDir
	var files []string
	if err := filepath.WalkDir(whole, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && e.Name() != durable.LockFile {
			files = append(files, strings.TrimPrefix(path, whole+"/"))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if said := texts(t, cfg); len(said) > 0 {
		t.Fatalf("a whole directory: %q", said)
	}
	told := 0
	for i, name := range files {
		if i > 0 && i < len(files)-1 && filepath.Ext(name) != "" && class(name) == class(files[i-1]) && class(name) == class(files[i+1]) {
			continue // the first and the last of many are enough
		}
		for what, happens := range mishaps {
			cfg.StateDir = filepath.Join(t.TempDir(), "state")
			if out, err := exec.CommandContext(t.Context(), "cp", "-a", whole, cfg.StateDir).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if err := happens(filepath.Join(cfg.StateDir, name)); err != nil {
				t.Fatal(err)
			}
			for _, text := range texts(t, cfg) {
				told++
				if again := repeated(text, cfg.StateDir); again != "" {
					t.Errorf("%s %s: %q twice in\n\t%s", name, what, again, strings.ReplaceAll(text, cfg.StateDir, "DIR"))
				}
			}
			if err := os.RemoveAll(cfg.StateDir); err != nil {
				t.Fatal(err)
			}
		}
	}
	if told < len(files) {
		t.Errorf("%d errors of %d files: nothing is tested", told, len(files))
	}
}

func class(name string) string { return filepath.Dir(name) + filepath.Ext(name) }

// stateWithAll makes the state directory of a host that ran: with votes, a log of
// some segments, and a snapshot.
func stateWithAll(t *testing.T) string {
	t.Helper()
	dir := statetest.WithLog(t, 60)
	id, _, err := join.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	votes := store.New(dir, id.Cluster, id.Node)
	for term := range cluster.Term(3) {
		if err := votes.SaveVote(lease.VoteRecord{PromisedTerm: term + 1}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := starts.Boot(dir, true, time.Now()); err != nil {
		t.Fatal(err)
	}
	l, err := eventlog.Open(eventlog.Options{
		Dir: LogDir(dir), Cluster: id.Cluster.String(), Self: id.Node, Key: id.IDKey(), SegmentSize: 8192,
		MayAct: func(cluster.Term) bool { return true }, Logger: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	voters := []cluster.NodeID{id.Node}
	l.SetVoters(cluster.VoterConfig{Epoch: 1, Term: 99, Voters: voters, Mode: cluster.ModeQuorum})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	for term := cluster.Term(99); term < 101; term++ {
		if _, err := l.Append(ctx, []event.Draft{{Term: term, Kind: event.KindTermStart, Body: event.TermStart{
			Term: term, Cut: l.Cut(), Voters: voters, Epoch: 1, ConfigTerm: 99,
		}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.TakeSnapshot(ctx, "uid:0@n1"); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return dir
}

// texts are what is said of a state directory: by a start, by the doctor and by
// each command that works on one.
func texts(t *testing.T, cfg config.Config) (said []string) {
	t.Helper()
	ctx, dir := t.Context(), cfg.StateDir
	add := func(err error) {
		if err != nil {
			said = append(said, err.Error())
		}
	}
	for _, err := range doctor.DamagedFiles(dir) {
		add(err)
	}
	v, err := VerifyLog(ctx, dir)
	add(err)
	if v.Problem != "" {
		said = append(said, v.Problem)
	}
	_, err = LogHeads(dir)
	add(err)
	_, err = ReplayLog(ctx, dir, ReplayOptions{})
	add(err)
	_, err = ExportLog(ctx, dir, ExportOptions{}, io.Discard)
	add(err)
	_, err = PlanRecovery(cfg)
	add(err)
	add(ExportRoot(cfg, filepath.Join(t.TempDir(), "root.json"), false))
	add(opens(dir))
	r, err := RepairLog(ctx, dir, "", true)
	add(err)
	for _, c := range r.Chains {
		said = append(said, c.Problem)
	}
	for _, f := range r.Files {
		said = append(said, f.Path+": "+f.Problem)
	}
	return said
}

// opens reads what a start reads.
func opens(dir string) error {
	id, records, err := join.Load(dir)
	if err != nil {
		return err
	}
	if _, _, err := store.New(dir, id.Cluster, id.Node).LoadVote(); err != nil {
		return err
	}
	l, err := eventlog.Open(eventlog.Options{
		Dir: LogDir(dir), Cluster: id.Cluster.String(), Self: id.Node, Key: id.IDKey(), KeyOf: id.Roster(records).KeyOf, SegmentSize: 8192,
		MayAct: func(cluster.Term) bool { return false }, Logger: zerolog.Nop(),
	})
	if err != nil {
		return err
	}
	return l.Close()
}

var (
	anyWord = regexp.MustCompile(`[a-zA-Z]{3,}`)
	anyFile = regexp.MustCompile(`[-./\w]*[.\w]\.[-.\w]*\w`)
)

// repeated returns what text says twice: the name of a file, the beginning of a
// clause, or a word that follows itself.
func repeated(text, dir string) string {
	files := map[string]bool{}
	for _, f := range anyFile.FindAllString(text, -1) {
		name := filepath.Base(f)
		if files[name] {
			return name
		}
		files[name] = true
	}
	clauses := strings.Split(strings.ReplaceAll(text, dir, ""), ": ")
	for i, c := range clauses {
		for _, later := range clauses[i+1:] {
			if strings.Contains(later, " ") && strings.HasPrefix(c, later) {
				return later
			}
		}
	}
	last, at := "", 0
	for _, w := range anyWord.FindAllStringIndex(text, -1) {
		word := text[w[0]:w[1]]
		if word == last && strings.TrimSpace(text[at:w[0]]) == "" {
			return word
		}
		last, at = word, w[1]
	}
	return ""
}
