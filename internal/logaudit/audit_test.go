package logaudit_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/skein-project/skein/internal/logaudit"
)

const testdata = "../../eventlog/record/testdata"

func unhex(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testdata, name))
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(strings.ReplaceAll(string(text), "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// chainFile is chain.json.
type chainFile struct {
	Cluster string `json:"cluster"`
	Key     string `json:"key"`
	Source  struct {
		Node string `json:"node"`
		Inc  uint64 `json:"inc"`
	} `json:"source"`
	Events []struct {
		Seq  uint64          `json:"seq"`
		Prev string          `json:"prev"`
		HLC  uint64          `json:"hlc"`
		Term uint64          `json:"term"`
		Kind string          `json:"kind"`
		Body json.RawMessage `json:"body"`
		Hash string          `json:"hash"`
	} `json:"events"`
	Heads []struct {
		Seq  uint64 `json:"seq"`
		Hash string `json:"hash"`
		Sig  []byte `json:"sig"`
	} `json:"heads"`
}

func golden(t *testing.T) (chainFile, ed25519.PublicKey, [][]byte) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(testdata, "chain.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want chainFile
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	key, err := hex.DecodeString(want.Key)
	if err != nil {
		t.Fatal(err)
	}
	return want, key, [][]byte{unhex(t, "segment.hex"), unhex(t, "segment-2.hex")}
}

// TestGoldenChain reads the golden segments with this package alone and finds
// what their description says.
func TestGoldenChain(t *testing.T) {
	want, key, files := golden(t)
	c, err := logaudit.Segments(want.Source.Node, want.Source.Inc, key, files)
	if err != nil {
		t.Fatal(err)
	}
	if c.Cluster != want.Cluster || len(c.Events) != len(want.Events) || len(c.Heads) != len(want.Heads) || c.Torn != 0 {
		t.Fatalf("%d events, %d heads, %d bytes torn", len(c.Events), len(c.Heads), c.Torn)
	}
	for i, e := range c.Events {
		w := want.Events[i]
		var body bytes.Buffer
		if err := json.Compact(&body, w.Body); err != nil {
			t.Fatal(err)
		}
		if e.Seq != w.Seq || hex.EncodeToString(e.Prev[:]) != w.Prev || e.Clock != w.HLC || e.Term != w.Term || e.Kind != w.Kind ||
			!bytes.Equal(e.Body, body.Bytes()) || hex.EncodeToString(e.Hash[:]) != w.Hash {
			t.Errorf("event %d: %+v, want %+v", i+1, e, w)
		}
	}
	for i, h := range c.Heads {
		if w := want.Heads[i]; h.Seq != w.Seq || hex.EncodeToString(h.Hash[:]) != w.Hash || !bytes.Equal(h.Sig, w.Sig) {
			t.Errorf("head %d: %+v", i+1, h)
		}
	}
	node, inc, seq, err := logaudit.Proof(want.Cluster, key, unhex(t, "proof.hex"))
	if err != nil || node != want.Source.Node || inc != want.Source.Inc || seq != 2 {
		t.Fatalf("proof against %s/%d at %d: %v", node, inc, seq, err)
	}
}

// TestDamageIsFound flips each bit of the golden chain, and cuts it everywhere:
// an error, or fewer events because the end may be an interrupted write.
func TestDamageIsFound(t *testing.T) {
	want, key, files := golden(t)
	check := func(what string, at int, files [][]byte) {
		c, err := logaudit.Segments(want.Source.Node, want.Source.Inc, key, files)
		if err == nil && len(c.Events) == len(want.Events) {
			t.Errorf("%s at %d is not noticed", what, at)
		}
	}
	for i, file := range files {
		used := len(bytes.TrimRight(file, "\x00"))
		for at := range used {
			broken := slices.Clone(files)
			broken[i] = slices.Clone(file)
			broken[i][at] ^= 1 << (at % 8)
			check("flip", at, broken)
		}
		for at := range used {
			broken := slices.Clone(files)
			broken[i] = file[:at]
			check("cut", at, broken)
		}
	}
	check("swap", 0, [][]byte{files[1], files[0]})
	check("repeat", 0, [][]byte{files[0], files[0]})
}

// TestReadsTheStandardLibraryOnly keeps the second opinion a second one.
func TestReadsTheStandardLibraryOnly(t *testing.T) {
	for _, name := range []string{"doc.go", "audit.go", "export.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if strings.Contains(i.Path.Value, ".") {
				t.Errorf("%s imports %s", name, i.Path.Value)
			}
		}
	}
}
