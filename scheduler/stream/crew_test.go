package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

var (
	alice = cluster.OutsideID([]byte("alice"))
	bob   = cluster.OutsideID([]byte("bob"))
)

// crewFrames are what stream CrewProto carries.
func crewFrames() []Frame {
	ref := job.Attempt{Job: "j1", Chunk: 3, Number: 1}
	out := []Frame{
		{Join: &Join{Session: 9, Owner: "visitor:ab", Slots: 2, Room: 4, Executors: []string{"wasm"}, Assigned: []job.Attempt{ref}}},
		{Join: &Join{Session: 9, Owner: "user:ann", Slots: 1, Room: 1, MemoryBytes: 1 << 30, Executors: []string{"wasm"}, Assigned: []job.Attempt{}, Draining: true}},
		{Part: &Part{Session: 9}},
		{Part: &Part{Session: 9, Gone: true, Reason: "bye"}},
		{Drop: &Drop{Term: 2, Session: 9, Reason: DropStale}},
	}
	for _, f := range goodFrames() {
		if f.Hello == nil && f.Welcome == nil && f.Refused == nil && f.Ping == nil && f.Pong == nil {
			out = append(out, f)
		}
	}
	for i := range out {
		if out[i].Worker = alice; i%3 == 2 {
			out[i].Worker = bob
		}
	}
	return append(out, Frame{Welcome: &Welcome{Executors: []string{}, Assigned: []job.Attempt{}, Crew: true}}, Frame{Status: &Status{Running: []job.Attempt{}}})
}

func TestCrewFrames(t *testing.T) {
	var enc Encoder
	var b []byte
	all := append(crewFrames(), crewFrames()...)
	for _, f := range all {
		var err error
		if b, err = enc.Append(b, f); err != nil {
			t.Fatal(err)
		}
	}
	in := NewCrewDecoder(bytes.NewReader(b))
	for i, want := range all {
		got, err := in.Read()
		if want.Result != nil && want.Result.Result != nil && want.Result.Result.Metrics == nil {
			continue // read as it was written, long
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("frame %d: %+v, %v; want %+v", i, got, err, want)
		}
	}
	if _, err := in.Read(); !errors.Is(err, io.EOF) {
		t.Fatalf("at the end: %v", err)
	}
}

// TestSpecIsToldOnce: however many workers get chunks of a job.
func TestSpecIsToldOnce(t *testing.T) {
	spec := job.Spec{Key: strings.Repeat("k", 64), Artefact: cluster.Hash{1}, Iterations: 10000, Chunk: 1}.WithDefaults()
	var enc Encoder
	var b []byte
	for i := range 100 {
		before := len(b)
		var err error
		b, err = enc.Append(b, Frame{Worker: cluster.OutsideID([]byte{byte(i)}), Assign: &Assign{Term: 1, Seq: uint64(i + 1), Job: "j", Spec: spec, Chunks: []job.Attempt{{Chunk: i, Number: 1}}}})
		if n := len(b) - before; err != nil || i > 0 && n > 50 {
			t.Fatalf("assignment %d has %d bytes: %v", i, n, err)
		}
	}
	in := NewCrewDecoder(bytes.NewReader(b))
	for i := range 100 {
		f, err := in.Read()
		if err != nil || f.Worker != cluster.OutsideID([]byte{byte(i)}) || f.Assign.Spec.Key != spec.Key || f.Assign.Chunks[0].Chunk != i {
			t.Fatalf("assignment %d: %+v, %v", i, f, err)
		}
	}
}

func TestCrewRefuses(t *testing.T) {
	join := `"join":{"session":1,"owner":"visitor:a","slots":1,"room":1}`
	at := fmt.Sprintf(`"worker":%q`, alice)
	refs := strings.Repeat(`{"job":"j","chunk":1,"attempt":1},`, MaxCrewAssigned+1)
	for name, c := range map[string]struct {
		in   string
		crew bool
	}{
		"worker on the other stream": {`{` + at + `,"query":{"term":1,"nonce":1}}`, false},
		"join on the other stream":   {`{` + join + `}`, false},
		"part on the other stream":   {`{"part":{"session":1}}`, false},
		"drop on the other stream":   {`{"drop":{"term":1,"session":1,"reason":"flood"}}`, false},
		"no worker":                  {`{"query":{"term":1,"nonce":1}}`, true},
		"nobody joins":               {`{` + join + `}`, true},
		"a host":                     {`{"worker":"n1",` + join + `}`, true},
		"all others":                 {`{"worker":"w-others",` + join + `}`, true},
		"whole stream":               {`{` + at + `,"ping":{"nonce":1}}`, true},
		"hello of a worker":          {`{` + at + `,"hello":{"term":1,"holder":"a"}}`, true},
		"two kinds":                  {`{` + at + `,` + join + `,"part":{"session":1}}`, true},
		"session 0":                  {`{` + at + `,"join":{"owner":"visitor:a","slots":1,"room":1}}`, true},
		"no owner":                   {`{` + at + `,"join":{"session":1,"slots":1,"room":1}}`, true},
		"blank owner":                {`{` + at + `,"join":{"session":1,"owner":"a b","slots":1,"room":1}}`, true},
		"no slots":                   {`{` + at + `,"join":{"session":1,"owner":"visitor:a","room":1}}`, true},
		"65 slots":                   {`{` + at + `,"join":{"session":1,"owner":"visitor:a","slots":65,"room":1}}`, true},
		"too much room":              {`{` + at + `,"join":{"session":1,"owner":"visitor:a","slots":1,"room":3}}`, true},
		"executor":                   {`{` + at + `,"join":{"session":1,"owner":"visitor:a","slots":1,"room":1,"executors":[""]}}`, true},
		"assigned":                   {`{` + at + `,"join":{"session":1,"owner":"visitor:a","slots":1,"room":1,"assigned":[` + strings.TrimSuffix(refs, ",") + `]}}`, true},
		"bad ref":                    {`{` + at + `,"join":{"session":1,"owner":"visitor:a","slots":1,"room":1,"assigned":[{"job":"j"}]}}`, true},
		"part of no session":         {`{` + at + `,"part":{}}`, true},
		"long reason":                {`{` + at + `,"part":{"session":1,"reason":"` + strings.Repeat("x", 8192) + `"}}`, true},
		"drop without term":          {`{` + at + `,"drop":{"session":1,"reason":"flood"}}`, true},
		"drop for nothing":           {`{` + at + `,"drop":{"term":1,"session":1,"reason":"mood"}}`, true},
		"short, of nobody":           {"\x04\x00\x02\x01\x00", true},
		"short, of a host":           {"\x04\x02n1\x02\x01\x00", true},
		"short, empty":               {"\x04\x02n1", true},
		"short in short":             {"\x04\x02n1\x04\x02n1\x02\x01\x00", true},
		"short, cut":                 {"\x04\x7f", true},
		"short on the other stream":  {"\x04" + string(rune(len(alice))) + string(alice) + "\x02\x01\x00", false},
	} {
		d := NewDecoder(bytes.NewReader(raw(c.in)))
		d.crew = c.crew
		if f, err := d.Read(); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %+v, %v; want ErrFrame", name, f, err)
		}
	}
	good := NewCrewDecoder(bytes.NewReader(raw(`{` + at + `,` + join + `}`)))
	if f, err := good.Read(); err != nil || f.Join == nil || f.Worker != alice {
		t.Errorf("what all of these are made of: %+v, %v", f, err)
	}
}

// FuzzCrew: whatever comes, it is refused or it can be said again, and means the same.
func FuzzCrew(f *testing.F) {
	var enc Encoder
	var b []byte
	for _, g := range append(crewFrames(), crewFrames()...) {
		b, _ = enc.Append(b[:0], g)
		f.Add(b)
	}
	f.Add(raw("\x04\x00\x02\x01\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := NewCrewDecoder(bytes.NewReader(data))
		for {
			g, err := in.Read()
			if err != nil {
				return
			}
			var again Encoder
			b, err := again.Append(nil, g)
			if err != nil {
				t.Fatalf("a frame that was read cannot be written: %v", err)
			}
			h, err := NewCrewDecoder(bytes.NewReader(b)).Read()
			if err != nil || h.Worker != g.Worker {
				t.Fatalf("%+v is read again as %+v, %v", g, h, err)
			}
		}
	})
}
