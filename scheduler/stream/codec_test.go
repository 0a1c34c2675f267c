package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// fill sets every field of what v points to to something else than its zero
// value, one element in each list.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for _, f := range v.Fields() {
			fill(f)
		}
		switch v := v.Addr().Interface().(type) {
		case *job.Attempt: // no frame names its worker
			v.Worker = ""
		case *Assign: // its chunks are of its job
			v.Chunks[0].Job = ""
			v.Resume = nil // with checkpoints it has no short form
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Array:
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint, reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(7)
	case reflect.Float64:
		v.SetFloat(7.5)
	default:
		panic("stream: a frame has a field of kind " + v.Kind().String())
	}
}

// TestShortFormsTellAll fails when a frame gets a field that its short form
// does not carry.
func TestShortFormsTellAll(t *testing.T) {
	var assign Assign
	fill(reflect.ValueOf(&assign).Elem())
	before := func(job.ID) (Assign, bool) { return Assign{Spec: assign.Spec, Owner: assign.Owner}, true }
	got, err := expand(appendAssign(nil, &assign), "", before)
	if err != nil || !reflect.DeepEqual(*got.Assign, assign) {
		t.Errorf("assign: %+v, %v; want %+v", got.Assign, err, assign)
	}
	var accepted Accepted
	fill(reflect.ValueOf(&accepted).Elem())
	accepted.Refs = append(accepted.Refs, accepted.Refs[0], job.Attempt{Job: "other", Chunk: 1, Number: 2})
	b, ok := compact(nil, &Frame{Accepted: &accepted})
	got, err = expand(b, "", before)
	if !ok || err != nil || !reflect.DeepEqual(*got.Accepted, accepted) {
		t.Errorf("accepted: %+v, %v; want %+v", got.Accepted, err, accepted)
	}
	// Whatever a result may carry beside numbers has the long form.
	var result Result
	fill(reflect.ValueOf(&result).Elem())
	if b, ok := compact(nil, &Frame{Result: &result}); ok {
		t.Errorf("a result with an error has the short form %x", b)
	}
	result = Result{Attempt: result.Attempt, Seconds: 1.5, Result: &job.ChunkResult{Iterations: 9, Metrics: map[string]job.Metric{
		"a": {N: 9, Mean: 1, M2: 2, Min: 0, Max: 3}, "b": {N: 8, Mean: -1, M2: 2, Min: -2, Max: 3},
	}}}
	b, ok = compact(nil, &Frame{Result: &result})
	got, err = expand(b, "", before)
	if !ok || err != nil || !reflect.DeepEqual(*got.Result, result) {
		t.Errorf("result: %+v, %v; want %+v", got.Result, err, result)
	}
}

// TestStreamOfFrames sends more jobs than both ends remember, in an order that
// comes back to earlier ones.
func TestStreamOfFrames(t *testing.T) {
	var want []Frame
	for i := range 4 * maxSpecs {
		want = append(want, goodFrames()...)
		j := job.ID(fmt.Sprintf("job-%d", i%(maxSpecs+maxSpecs/2)))
		spec := job.Spec{Key: string(j), Artefact: cluster.Hash{1}, Iterations: 100, Chunk: 10}.WithDefaults()
		want = append(want, Frame{Assign: &Assign{Term: 2, Job: j, Spec: spec, Chunks: []job.Attempt{{Chunk: i % 10, Number: 1}}}})
	}
	var enc Encoder
	var wire []byte
	var err error
	for _, f := range want {
		if wire, err = enc.Append(wire, f); err != nil {
			t.Fatal(err)
		}
	}
	in := NewDecoder(bytes.NewReader(wire))
	for i, w := range want {
		got, err := in.Read()
		if err != nil || !reflect.DeepEqual(got, w) {
			t.Fatalf("frame %d: %+v, %v; want %+v", i, got, err, w)
		}
	}
	if _, err := in.Read(); !errors.Is(err, io.EOF) {
		t.Fatalf("at the end: %v, want io.EOF", err)
	}
}

func TestShortFormsRefuse(t *testing.T) {
	assign := Frame{Assign: &Assign{
		Term: 2, Job: "j", Chunks: []job.Attempt{{Chunk: 3, Number: 1}},
		Spec: job.Spec{Key: "k", Artefact: cluster.Hash{1}, Iterations: 100, Chunk: 10}.WithDefaults(),
	}}
	result := Frame{Result: &Result{Attempt: job.Attempt{Job: "j", Chunk: 3, Number: 1}, Result: &job.ChunkResult{
		Iterations: 10, Metrics: map[string]job.Metric{"x": {N: 10, Mean: 1, Max: 2}},
	}}}
	accepted := Frame{Accepted: &Accepted{Term: 2, Refs: []job.Attempt{{Job: "j", Chunk: 3, Number: 1}}}}
	for _, f := range []Frame{assign, result, accepted} {
		var enc Encoder
		wire, err := enc.Append(nil, f)
		if err != nil {
			t.Fatal(err)
		}
		told := len(wire)
		if wire, err = enc.Append(wire, f); err != nil {
			t.Fatal(err)
		}
		short := wire[told+4:]
		for n := 1; n < len(short); n++ {
			d := NewDecoder(bytes.NewReader(append(bytes.Clone(wire[:told]), raw(string(short[:n]))...)))
			if _, err := d.Read(); err != nil {
				t.Fatal(err)
			}
			if got, err := d.Read(); !errors.Is(err, ErrFrame) {
				t.Errorf("%x: %+v, %v; want ErrFrame", short[:n], got, err)
			}
		}
		if _, err := Read(bytes.NewReader(raw(string(short) + "x"))); !errors.Is(err, ErrFrame) {
			t.Errorf("one byte too many: %v, want ErrFrame", err)
		}
	}
	var enc Encoder
	first, err := enc.Append(nil, assign)
	if err != nil {
		t.Fatal(err)
	}
	second, err := enc.Append(nil, assign)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Read(bytes.NewReader(second)); !errors.Is(err, ErrFrame) {
		t.Errorf("assign of a job that was never told: %+v, %v; want ErrFrame", got, err)
	}
	if len(second) > len(first)/10 {
		t.Errorf("the second assign has %d bytes, the first %d", len(second), len(first))
	}
	for name, in := range map[string]string{
		"more refs than bytes": "\x02\x02\xff\xff\xff\x7f",
		"metric twice":         "\x03\x01j\x03\x01" + string(make([]byte, 8)) + "\x0a\x02" + twice("\x01x\x0a"+string(make([]byte, 32))),
		"chunk beyond int32":   "\x03\x01j\xff\xff\xff\xff\x7f\x01" + string(make([]byte, 8)) + "\x0a\x00",
		"infinite seconds":     "\x03\x01j\x03\x01\x7f\xf0" + string(make([]byte, 6)) + "\x0a\x00",
		"unknown form":         "\x04",
	} {
		if got, err := Read(bytes.NewReader(raw(in))); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %+v, %v; want ErrFrame", name, got, err)
		}
	}
}

func twice(s string) string { return s + s }

// FuzzDecoder reads streams: whatever is read can be sent on and reads the
// same.
func FuzzDecoder(f *testing.F) {
	var enc Encoder
	var wire []byte
	for range 2 {
		for _, g := range goodFrames() {
			var err error
			if wire, err = enc.Append(wire, g); err != nil {
				f.Fatal(err)
			}
		}
	}
	f.Add(wire)
	f.Fuzz(func(t *testing.T, data []byte) {
		in := NewDecoder(bytes.NewReader(data))
		var again Encoder
		var sent []byte
		var frames int
		known := make(map[job.ID]Assign)
		for {
			g, err := in.Read()
			if err != nil {
				break
			}
			if a := g.Assign; a != nil {
				if s, ok := known[a.Job]; ok && (s.Owner != a.Owner || !reflect.DeepEqual(s.Spec, a.Spec)) {
					break // no holder does that: a job's spec and owner never change
				}
				known[a.Job] = *a
			}
			frames++
			if sent, err = again.Append(sent, g); err != nil {
				t.Fatalf("a frame that was read cannot be written: %v", err)
			}
		}
		out := NewDecoder(bytes.NewReader(sent))
		for i := range frames {
			if _, err := out.Read(); err != nil {
				t.Fatalf("frame %d of %d, sent on: %v", i, frames, err)
			}
		}
	})
}

func BenchmarkFrames(b *testing.B) {
	result := Frame{Result: &Result{Attempt: job.Attempt{Job: "jaaaaaaaaaaaaaaaaaaaaaaaaaa", Chunk: 3, Number: 1}, Result: &job.ChunkResult{
		Iterations: 10, Metrics: map[string]job.Metric{"x": {N: 10, Mean: 1, Max: 2}},
	}}}
	var enc Encoder
	wire, err := enc.Append(nil, result)
	if err != nil {
		b.Fatal(err)
	}
	r := bytes.NewReader(wire)
	in := NewDecoder(r)
	b.ReportAllocs()
	for b.Loop() {
		r.Reset(wire)
		if _, err := in.Read(); err != nil {
			b.Fatal(err)
		}
		if wire, err = enc.Append(wire[:0], result); err != nil {
			b.Fatal(err)
		}
	}
}
