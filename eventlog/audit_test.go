package eventlog

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/internal/logaudit"
)

// auditChain verifies one chain of a closed log by the written format alone.
func auditChain(t *testing.T, dir string, src event.SourceID) *logaudit.Chain {
	t.Helper()
	var files [][]byte
	for _, name := range segmentPaths(t, dir, src) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, b)
	}
	c, err := logaudit.Segments(string(src.Node), src.Inc, pubFor(src.Node), files)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestThirdPartyVerifies has a program that shares no code with this one
// verify what hosts wrote: an own chain and a copy of several segments, and
// the proof of a fork.
func TestThirdPartyVerifies(t *testing.T) {
	nw := newNetwork(t)
	bo := testOptions(t.TempDir(), "b")
	bo.Dial, bo.SegmentSize = nw.dialer("b"), 4096
	b, stop := start(t, bo)
	one, two := lives(t, nw, "a", 40)
	mustAppend(t, one, note(1), note(2))
	mustAppend(t, two, note(3))
	mustAppend(t, two, note(4), note(5), note(6))
	for i := range 30 {
		mustAppend(t, b, note(i), note(i), note(i))
	}
	if err := follow(t, nw, b, "a", one); err != nil {
		t.Fatal(err)
	}
	if err := follow(t, nw, b, "a", two); !errors.Is(err, store.ErrEquivocation) {
		t.Fatal(err)
	}
	heads := b.Heads()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for _, h := range heads {
		c := auditChain(t, bo.Dir, h.Source)
		last := c.Events[len(c.Events)-1]
		if c.Cluster != testCluster || last.Seq != h.Seq || last.Hash != h.Hash {
			t.Errorf("%s: third party ends at %d, %x", h.Source, last.Seq, last.Hash)
		}
	}
	proof, err := os.ReadFile(filepath.Join(bo.Dir, segment.ProofDir, segment.SourceDir(one.Source())+".proof"))
	if err != nil {
		t.Fatal(err)
	}
	if node, inc, seq, err := logaudit.Proof(testCluster, pubFor("a"), proof); err != nil || node != "a" || inc != 1 || seq != 41 {
		t.Errorf("proof against %s/%d at %d: %v", node, inc, seq, err)
	}
	if _, _, _, err := logaudit.Proof(testCluster, pubFor("b"), proof); err == nil {
		t.Error("the proof holds against another key")
	}
}
