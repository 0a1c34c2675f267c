package record

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster/event"
)

// golden compares got with a file of hex digits. SKEIN_UPDATE=1 rewrites it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if os.Getenv("SKEIN_UPDATE") == "1" {
		if err := os.WriteFile(name, []byte(wrap(hex.EncodeToString(got))), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	want, err := hex.DecodeString(strings.ReplaceAll(string(text), "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("the format changed: %s is\n%x\nwant\n%x\nif that is meant, for a log that was never released: SKEIN_UPDATE=1 go test ./eventlog/record", name, got, want)
	}
}

// goldenSegment writes frames behind each other.
type goldenSegment struct {
	t *testing.T
	b []byte
}

func (g *goldenSegment) frame(typ Type, base uint64, payload []byte, err error) {
	g.t.Helper()
	if err == nil {
		g.b, err = AppendFrame(g.b, Frame{Type: typ, Base: base, Payload: payload})
	}
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *goldenSegment) event(base uint64, e event.Event) {
	p, err := AppendEvent(nil, e)
	g.frame(TypeEvent, base, p, err)
}

func (g *goldenSegment) head(base uint64, e event.Event) event.Head {
	h := SignHead("c1", event.Head{Source: e.Source, Seq: e.Seq, Hash: e.Hash}, testKey())
	p, err := AppendHead(nil, h)
	g.frame(TypeHead, base, p, err)
	return h
}

// laterEvents follow goodEvents, in groups of one and two.
func laterEvents() []event.Event {
	p := goodEvents()[1]
	var out []event.Event
	for i, body := range []string{`{"term":7,"successor":"n2","reason":"asked"}`, `{}`, `{"version":"2","boot":4}`} {
		e := event.Event{Source: p.Source, Seq: p.Seq + 1, Prev: p.Hash, HLC: p.HLC + 1<<16, Kind: event.KindLeaseReleased, Body: []byte(body)}
		if i > 0 {
			e.Kind = event.KindHostStarted
		}
		e.Hash = mustHash(e)
		out = append(out, e)
		p = e
	}
	return out
}

// goldenChain is what chain.json holds: the golden segments for readers in
// other languages.
type goldenChain struct {
	Cluster string         `json:"cluster"`
	Key     string         `json:"key"` // Ed25519, hex
	Source  event.SourceID `json:"source"`
	Events  []event.Event  `json:"events"`
	Heads   []event.Head   `json:"heads"`
}

// TestGoldenChain holds the second segment of the golden chain, the description
// of both, and a proof that their source forked.
func TestGoldenChain(t *testing.T) {
	events := append(goodEvents(), laterEvents()...)
	second := &goldenSegment{t: t, b: []byte(Magic)}
	p, err := AppendHeader(nil, Header{Cluster: "c1", Source: events[0].Source, First: 3, Prev: events[1].Hash})
	second.frame(TypeHeader, 3, p, err)
	second.event(3, events[2])
	heads := []event.Head{
		SignHead("c1", event.Head{Source: events[1].Source, Seq: 2, Hash: events[1].Hash}, testKey()), second.head(3, events[2]),
	}
	second.event(4, events[3])
	second.event(4, events[4])
	heads = append(heads, second.head(4, events[4]))
	golden(t, "segment-2.hex", append(second.b, make([]byte, 64)...))

	other := events[1]
	other.Body = []byte(`{"job":"j2","actor":"uid:0"}`)
	other.Hash = mustHash(other)
	proof := []byte{1}
	for _, e := range []event.Event{events[1], other} {
		run := &goldenSegment{t: t}
		run.event(1, e)
		run.head(1, e)
		proof = binary.BigEndian.AppendUint32(proof, uint32(len(run.b)))
		proof = append(proof, run.b...)
	}
	golden(t, "proof.hex", proof)

	got, err := json.MarshalIndent(goldenChain{
		Cluster: "c1", Key: hex.EncodeToString(testKey()[32:]), Source: events[0].Source, Events: events, Heads: heads,
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join("testdata", "chain.json")
	if os.Getenv("SKEIN_UPDATE") == "1" {
		if err := os.WriteFile(name, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(name); err != nil || !bytes.Equal(bytes.TrimSpace(want), got) {
		t.Fatalf("chain.json: %v\n%s\nif that is meant: SKEIN_UPDATE=1 go test ./eventlog/record", err, got)
	}
}
