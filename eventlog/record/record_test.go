package record

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

func testKey() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32)) }

func goodEvents() []event.Event {
	first := event.Event{
		Source: event.SourceID{Node: "n1", Inc: 1}, Seq: 1, HLC: 0x0190_0000_0000_0001,
		Kind: event.KindHostStarted, Body: []byte(`{"version":"1","boot":3}`),
	}
	first.Hash = mustHash(first)
	second := event.Event{
		Source: first.Source, Seq: 2, Prev: first.Hash, HLC: first.HLC + 1, Term: 7,
		Kind: event.KindJobStopped, Body: []byte(`{"job":"j1","actor":"uid:0"}`),
	}
	second.Hash = mustHash(second)
	return []event.Event{first, second}
}

func mustHash(e event.Event) cluster.Hash {
	b, err := AppendEvent(nil, e)
	if err != nil {
		panic(err)
	}
	return HashEvent(e.Prev, b)
}

// segment returns a whole segment file with two events, their head and a seal.
func segment(t testing.TB) []byte {
	t.Helper()
	events := goodEvents()
	b := []byte(Magic)
	add := func(typ Type, base uint64, payload []byte, err error) {
		t.Helper()
		if err == nil {
			b, err = AppendFrame(b, Frame{Type: typ, Base: base, Payload: payload})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	p, err := AppendHeader(nil, Header{Cluster: "c1", Source: events[0].Source, First: 1})
	add(TypeHeader, 1, p, err)
	for _, e := range events {
		p, err := AppendEvent(nil, e)
		add(TypeEvent, 1, p, err)
	}
	last := events[1]
	p, err = AppendHead(nil, SignHead("c1", event.Head{Source: last.Source, Seq: 2, Hash: last.Hash}, testKey()))
	add(TypeHead, 1, p, err)
	add(TypeSeal, 3, AppendSeal(nil, Seal{Last: 2, Hash: last.Hash}), nil)
	return b
}

// TestGolden holds the format: bytes written by version 1 must stay readable
// and new ones must be equal to them. SKEIN_UPDATE=1 rewrites the file.
func TestGolden(t *testing.T) {
	name := filepath.Join("testdata", "segment.hex")
	got := segment(t)
	if os.Getenv("SKEIN_UPDATE") == "1" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
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
		t.Fatalf("the format changed:\n%x\nwant\n%x\nif that is meant, for a log that was never released: SKEIN_UPDATE=1 go test ./eventlog/record", got, want)
	}
	if h := goodEvents()[0].Hash.String(); h != goldenHash {
		t.Fatalf("hash of the first event is %s, want %s", h, goldenHash)
	}
}

// goldenHash was computed by another program from the written format.
const goldenHash = "6d5c1f40dafd61e13db75bdc8a50bf9e3c11f83211eb451610ebb8e39a80fd50"

func wrap(s string) string {
	var b strings.Builder
	for len(s) > 64 {
		b.WriteString(s[:64] + "\n")
		s = s[64:]
	}
	return b.String() + s + "\n"
}

func TestDecoderReadsASegment(t *testing.T) {
	b := segment(t)
	d := NewDecoder(iotest.OneByteReader(bytes.NewReader(b[len(Magic):])), int64(len(Magic)), 0)
	var types []Type
	var events []event.Event
	for {
		f, err := d.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, f.Type)
		switch f.Type {
		case TypeHeader:
			h, err := DecodeHeader(f.Payload)
			if err != nil || h.Cluster != "c1" || h.First != 1 || h.Source.Node != "n1" {
				t.Fatalf("header %+v, %v", h, err)
			}
		case TypeEvent:
			e, err := DecodeEvent(f.Payload)
			if err != nil {
				t.Fatal(err)
			}
			e.Body = bytes.Clone(e.Body)
			events = append(events, e)
		case TypeHead:
			h, err := DecodeHead(f.Payload)
			if err != nil || h.Seq != 2 {
				t.Fatalf("head %+v, %v", h, err)
			}
			pub := testKey().Public().(ed25519.PublicKey)
			if err := VerifyHead("c1", h, pub); err != nil {
				t.Fatal(err)
			}
			if VerifyHead("c2", h, pub) == nil {
				t.Fatal("head holds in another cluster")
			}
			h.Seq++
			if VerifyHead("c1", h, pub) == nil {
				t.Fatal("head holds for another seq")
			}
		case TypeSeal:
			if s, err := DecodeSeal(f.Payload); err != nil || s.Last != 2 {
				t.Fatalf("seal %+v, %v", s, err)
			}
		}
	}
	if !reflect.DeepEqual(types, []Type{TypeHeader, TypeEvent, TypeEvent, TypeHead, TypeSeal}) || !reflect.DeepEqual(events, goodEvents()) {
		t.Fatalf("read %v, %+v", types, events)
	}
	if d.Offset() != int64(len(b)) || d.Record() != 5 {
		t.Fatalf("stopped at %d, record %d", d.Offset(), d.Record())
	}
}

func TestDamageIsNamed(t *testing.T) {
	whole := segment(t)[len(Magic):]
	_, n, err := ParseFrame(whole)
	if err != nil {
		t.Fatal(err)
	}
	change := func(at int, with byte) []byte {
		b := bytes.Clone(whole)
		b[at] = with
		return b
	}
	for name, tc := range map[string]struct {
		in     []byte
		offset int64
		record int
		want   error
	}{
		"torn header":   {whole[:n+5], int64(n), 1, ErrTorn},
		"torn payload":  {whole[:n+40], int64(n), 1, ErrTorn},
		"checksum":      {change(n+30, 0xff), int64(n), 1, ErrCorrupt},
		"type":          {change(8, 9), 0, 0, ErrCorrupt},
		"base":          {change(9, 9), 0, 0, ErrCorrupt},
		"huge length":   {change(3, 0xff), 0, 0, ErrCorrupt},
		"blank":         {append(bytes.Clone(whole[:n]), make([]byte, 100)...), int64(n), 1, ErrBlank},
		"few zeros":     {append(bytes.Clone(whole[:n]), 0, 0), int64(n), 1, ErrBlank},
		"length to end": {change(2, 1), 0, 0, ErrTorn},
	} {
		d := NewDecoder(bytes.NewReader(tc.in), 0, 0)
		var err error
		for err == nil {
			_, err = d.Next()
		}
		dmg, ok := errors.AsType[*Damage](err)
		if !ok || !errors.Is(err, tc.want) || dmg.Offset != tc.offset || dmg.Record != tc.record {
			t.Errorf("%s: %v, want %v at %d, record %d", name, err, tc.want, tc.offset, tc.record)
		}
		if _, again := d.Next(); !errors.Is(again, tc.want) {
			t.Errorf("%s: the error is not final: %v", name, again)
		}
	}
}

// TestHugeLengthAllocatesNothing announces 16 MiB that never come.
func TestHugeLengthAllocatesNothing(t *testing.T) {
	b := make([]byte, FrameHeaderLen+100)
	if err := FinishFrame(b, 0, TypeEvent, 1); err != nil {
		t.Fatal(err)
	}
	b[3] = 1 // length 16 MiB + 100, over the limit
	if _, _, err := ParseFrame(b); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("length over the limit: %v", err)
	}
	b[3], b[2] = 0, 0xff // just below
	d := NewDecoder(bytes.NewReader(b), 0, 0)
	if _, err := d.Next(); !errors.Is(err, ErrTorn) || len(d.buf) > 2*firstBuffer {
		t.Fatalf("%v with a buffer of %d bytes", err, len(d.buf))
	}
}

func TestEventRefusals(t *testing.T) {
	good := goodEvents()[1]
	for name, change := range map[string]func(*event.Event){
		"node":          func(e *event.Event) { e.Source.Node = "Bad" },
		"incarnation":   func(e *event.Event) { e.Source.Inc = 0 },
		"seq":           func(e *event.Event) { e.Seq = 0 },
		"first prev":    func(e *event.Event) { e.Seq = 1 },
		"no kind":       func(e *event.Event) { e.Kind = "" },
		"kind letters":  func(e *event.Event) { e.Kind = "a b" },
		"kind length":   func(e *event.Event) { e.Kind = event.Kind(strings.Repeat("a", MaxKind+1)) },
		"body too long": func(e *event.Event) { e.Body = make([]byte, MaxBody+1) },
	} {
		e := good
		change(&e)
		if _, err := AppendEvent(nil, e); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	b, err := AppendEvent(nil, good)
	if err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string][]byte{
		"empty": nil, "version": append([]byte{9}, b[1:]...), "cut": b[:len(b)-1], "longer": append(bytes.Clone(b), 0),
	} {
		if _, err := DecodeEvent(in); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	for name, body := range map[string]string{"empty": "", "array": "[]", "broken": `{"a"`, "text": "x"} {
		e := good
		e.Body = []byte(body)
		if CheckBody(e) == nil {
			t.Errorf("body %s accepted", name)
		}
	}
	e := good
	if e.Term = 0; CheckBody(e) == nil {
		t.Error("authority without a term accepted")
	}
	if e.Kind = "from_a_later_version"; CheckBody(e) != nil {
		t.Error("unknown kind refused")
	}
}

// TestHeadFrameLen: the log makes room for a head before there is one.
func TestHeadFrameLen(t *testing.T) {
	for _, n := range []cluster.NodeID{"a", "host-001"} {
		h := SignHead("c1", event.Head{Source: event.SourceID{Node: n, Inc: 2}, Seq: 9, Hash: cluster.Hash{1}}, testKey())
		p, err := AppendHead(nil, h)
		if err != nil {
			t.Fatal(err)
		}
		frame, err := AppendFrame(nil, Frame{Type: TypeHead, Base: 9, Payload: p})
		if err != nil || HeadFrameLen(h.Source) != len(frame) {
			t.Errorf("head of %s: %d bytes, want %d (%v)", n, HeadFrameLen(h.Source), len(frame), err)
		}
	}
}

func TestHeadsRoundTrip(t *testing.T) {
	var heads []event.Head
	for _, n := range []cluster.NodeID{"a", "b", "c"} {
		heads = append(heads, SignHead("c1", event.Head{Source: event.SourceID{Node: n, Inc: 2}, Seq: 9, Hash: cluster.Hash{1}}, testKey()))
	}
	b, err := AppendHeads(nil, heads)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeHeads(b, 3); err != nil || !reflect.DeepEqual(got, heads) {
		t.Fatalf("%+v, %v", got, err)
	}
	heads[0], heads[1] = heads[1], heads[0]
	unsorted, err := AppendHeads(nil, heads)
	if err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string][]byte{"cut": b[:len(b)-1], "longer": append(bytes.Clone(b), 0), "unsorted": unsorted, "empty": nil} {
		if _, err := DecodeHeads(in, 3); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	if _, err := DecodeHeads(b, 2); !errors.Is(err, ErrInvalid) {
		t.Errorf("more than the limit: %v", err)
	}
}

func TestLaterGroup(t *testing.T) {
	var b []byte
	for base := uint64(1); base <= 3; base++ {
		var err error
		if b, err = AppendFrame(b, Frame{Type: TypeSeal, Base: base, Payload: AppendSeal(nil, Seal{Last: base})}); err != nil {
			t.Fatal(err)
		}
	}
	n := len(b) / 3
	junk := append(bytes.Repeat([]byte{3}, 50), b...)
	for seq, want := range map[uint64]int{0: 50, 1: 50 + n, 2: 50 + 2*n, 3: -1} {
		if got := LaterGroup(junk, seq); got != want {
			t.Errorf("group after %d found at %d, want %d", seq, got, want)
		}
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add(segment(f)[len(Magic):])
	f.Add(make([]byte, 40))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := NewDecoder(bytes.NewReader(b), 0, 0)
		at := 0
		for {
			fr, err := d.Next()
			if err != nil {
				dmg, ok := errors.AsType[*Damage](err)
				if !errors.Is(err, io.EOF) && (!ok || dmg.Offset != int64(at)) {
					t.Fatalf("at %d: %v", at, err)
				}
				return
			}
			again, err := AppendFrame(nil, fr)
			if err != nil || !bytes.Equal(again, b[at:at+len(again)]) {
				t.Fatalf("frame at %d has two encodings", at)
			}
			at += len(again)
		}
	})
}

func FuzzPayloads(f *testing.F) {
	for b := segment(f)[len(Magic):]; len(b) > 0; {
		fr, n, err := ParseFrame(b)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(fr.Payload)
		b = b[n:]
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		canonical := func(again []byte, err error) {
			t.Helper()
			if err != nil || !bytes.Equal(again, b) {
				t.Fatalf("%x has another encoding %x, %v", b, again, err)
			}
		}
		if e, err := DecodeEvent(b); err == nil {
			canonical(AppendEvent(nil, e))
		}
		if h, err := DecodeHead(b); err == nil {
			canonical(AppendHead(nil, h))
		}
		if h, err := DecodeHeads(b, 100); err == nil {
			canonical(AppendHeads(nil, h))
		}
		if h, err := DecodeHeader(b); err == nil {
			canonical(AppendHeader(nil, h))
		}
		if s, err := DecodeSeal(b); err == nil {
			canonical(AppendSeal(nil, s), nil)
		}
	})
}

func BenchmarkDecodeEvent(b *testing.B) {
	e := goodEvents()[1]
	e.Body = append(append([]byte(`{"x":"`), bytes.Repeat([]byte("y"), 250)...), `"}`...)
	p, err := AppendEvent(nil, e)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeEvent(p); err != nil {
			b.Fatal(err)
		}
	}
}
