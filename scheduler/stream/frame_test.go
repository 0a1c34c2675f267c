package stream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/overload"
)

func goodFrames() []Frame {
	spec := job.Spec{Key: "k", Artefact: cluster.Hash{1}, Iterations: 100, Chunk: 10}.WithDefaults()
	ref := job.Attempt{Job: "j1", Chunk: 3, Number: 1}
	return []Frame{
		{Hello: &Hello{Term: 2, Holder: "a"}},
		{Welcome: &Welcome{Slots: 4, Executors: []string{"wasm"}, Assigned: []job.Attempt{ref}}},
		{Refused: &Refused{MaxTerm: 9, Reason: "stale term"}},
		{Assign: &Assign{Term: 2, Job: "j1", Spec: spec, Chunks: []job.Attempt{{Chunk: 9, Number: 1}}}},
		{Assign: &Assign{Term: 2, Job: "j2", Spec: spec, Owner: "user:ann", Chunks: []job.Attempt{{Chunk: 9, Number: 1}}}},
		{Welcome: &Welcome{Slots: 1, Executors: []string{"wasm"}, Accept: &job.Acceptance{Accept: job.AcceptUser, Names: []string{"user:ann"}}}},
		{Welcome: &Welcome{Slots: 1, Executors: []string{"wasm"}, MemoryBytes: 1 << 30}},
		{Cancel: &Cancel{Term: 2, Job: "j1"}},
		{Accepted: &Accepted{Term: 2, Refs: []job.Attempt{ref}}},
		{Result: &Result{Attempt: ref, Result: &job.ChunkResult{Iterations: 10}, Seconds: 1.5}},
		{Result: &Result{Attempt: ref, Error: "exit 1"}},
		{Status: &Status{Running: []job.Attempt{ref}, Queued: 1, Kept: 2}},
		{Result: &Result{Attempt: ref, Error: "module: artefact not found", Class: job.FailedInfra}},
		{Status: &Status{Running: []job.Attempt{ref}, Ready: true, QueueSeconds: 0.5, Progress: []Progress{{Attempt: ref, Done: 3, Seconds: 2, Idle: 1}}}},
		{Status: &Status{Running: []job.Attempt{ref}, Ready: true, Progress: []Progress{{Attempt: ref, Done: 3, Ask: &Ask{Number: 2, Seconds: 30, Reason: "a large frame"}}}}},
		{Status: &Status{Running: []job.Attempt{ref}, Ready: true, Progress: []Progress{{Attempt: ref, Done: 3, Saved: &job.Checkpoint{File: job.File{Hash: cluster.Hash{5}, Size: 9}, Done: 3}}}}},
		{Assign: &Assign{Term: 2, Job: "j1", Spec: spec, Chunks: []job.Attempt{{Chunk: 9, Number: 2}}, Resume: []Resume{{Chunk: 9, Checkpoint: job.Checkpoint{File: job.File{Hash: cluster.Hash{5}, Size: 9}, Done: 3}}}}},
		{Query: &Ping{Term: 2, Nonce: 8}},
		{Assigned: &Assigned{Nonce: 8, Refs: []job.Attempt{ref}, Kept: []job.Attempt{ref}}},
		{Cancel: &Cancel{Term: 2, Seq: 3, Job: "j1"}},
		{Stopped: &Stopped{Job: "j1", Seq: 3}},
		{Ping: &Ping{Term: 2, Nonce: 7}},
		{Pong: &Ping{Nonce: 7}},
	}
}

// TestEachFrameHasALane: one that is added has none until somebody says how urgent it is, and
// what must not be lost is in no lane of which something may be.
func TestEachFrameHasALane(t *testing.T) {
	if l := (Frame{Worker: "w"}).Lane(); l.Known() {
		t.Errorf("an empty frame is in lane %s", l)
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Frame]()) {
		if field.Name == "Worker" {
			continue
		}
		var f Frame
		reflect.ValueOf(&f).Elem().FieldByIndex(field.Index).Set(reflect.New(field.Type.Elem()))
		l := f.Lane()
		if !l.Known() {
			t.Errorf("%s has no lane", field.Name)
		}
		if dropped := l == overload.Telemetry; dropped != (field.Name == "Status" || field.Name == "Ping" || field.Name == "Pong") {
			t.Errorf("%s is in lane %s", field.Name, l)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	var buf bytes.Buffer
	for _, f := range goodFrames() {
		if err := Write(&buf, f); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range goodFrames() {
		got, err := Read(&buf)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("read %+v, %v; want %+v", got, err, want)
		}
	}
	if _, err := Read(&buf); !errors.Is(err, io.EOF) {
		t.Fatalf("at the end: %v, want io.EOF", err)
	}
}

func raw(body string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func TestReadRefuses(t *testing.T) {
	for name, in := range map[string][]byte{
		"huge length":   {0xff, 0xff, 0xff, 0xff},
		"not JSON":      raw("hello"),
		"empty":         raw("{}"),
		"two kinds":     raw(`{"ping":{"nonce":1},"pong":{"nonce":1}}`),
		"no term":       raw(`{"hello":{"term":0}}`),
		"negative":      raw(`{"result":{"job":"j","chunk":-1,"attempt":1,"error":"x"}}`),
		"both":          raw(`{"result":{"job":"j","attempt":1,"error":"x","result":{}}}`),
		"long error":    raw(`{"result":{"job":"j","attempt":1,"error":"` + strings.Repeat("x", cluster.MaxReason+1) + `"}}`),
		"slots":         raw(`{"welcome":{"slots":1000000}}`),
		"assign bad":    raw(`{"assign":{"term":1,"job":"j","spec":{}}}`),
		"class":         raw(`{"result":{"job":"j","attempt":1,"error":"x","class":"nobody's"}}`),
		"class of good": raw(`{"result":{"job":"j","attempt":1,"result":{},"class":"infra"}}`),
		"no job":        raw(`{"result":{"attempt":1,"error":"x"}}`),
		"long job":      raw(`{"accepted":{"term":1,"refs":[{"job":"` + strings.Repeat("j", 65) + `","attempt":1}]}}`),
		"stopped":       raw(`{"stopped":{"job":"j"}}`),
		"idle":          raw(`{"status":{"progress":[{"job":"j","attempt":1,"idle":-1}]}}`),
		"ask":           raw(`{"status":{"progress":[{"job":"j","attempt":1,"ask":{"number":1,"seconds":0}}]}}`),
		"ask number":    raw(`{"status":{"progress":[{"job":"j","attempt":1,"ask":{"seconds":1}}]}}`),
		"ask reason":    raw(`{"status":{"progress":[{"job":"j","attempt":1,"ask":{"number":1,"seconds":1,"reason":"` + strings.Repeat("x", cluster.MaxReason+1) + `"}}]}}`),
		"saved":         raw(`{"status":{"progress":[{"job":"j","attempt":1,"saved":{"hash":"","size":1,"done":1}}]}}`),
		"queue age":     raw(`{"status":{"queue_seconds":-1}}`),
		"no executor":   raw(`{"welcome":{"slots":1,"executors":[""]}}`),
		"memory":        raw(`{"welcome":{"slots":1,"memory_bytes":-1}}`),
		"room":          raw(`{"welcome":{"slots":1,"room":-1}}`),
		"cancel":        raw(`{"cancel":{"term":1,"job":"j","chunks":[{"chunk":-1,"attempt":1}]}}`),
		"float seconds": raw(`{"result":{"job":"j","attempt":1,"error":"x","seconds":-1}}`),
	} {
		if f, err := Read(bytes.NewReader(in)); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %+v, %v; want ErrFrame", name, f, err)
		}
	}
	if _, err := Read(bytes.NewReader(raw(`{"ping":{}}`)[:6])); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("cut frame: %v, want an error that is not a clean end", err)
	}
}

func TestAssignBeyondTheJob(t *testing.T) {
	f := goodFrames()[3]
	f.Assign.Chunks[0].Chunk = 10
	if err := f.Validate(); !errors.Is(err, ErrFrame) {
		t.Fatalf("chunk 10 of 10: %v, want ErrFrame", err)
	}
}

func FuzzRead(f *testing.F) {
	for _, g := range goodFrames() {
		var buf bytes.Buffer
		if err := Write(&buf, g); err != nil {
			f.Fatal(err)
		}
		f.Add(buf.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		if err := Write(io.Discard, g); err != nil {
			t.Fatalf("a frame that was read cannot be written: %v", err)
		}
	})
}
