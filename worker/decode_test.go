package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/scheduler/stream"
)

func TestDecodeResult(t *testing.T) {
	r, err := decodeResult([]byte(" \n"+goodResult+"\n\n"), 10)
	if err != nil || r.Metrics["x"] != (cluster.Metric{N: 10, Mean: 2, M2: 10, Min: 1, Max: 3}) {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := decodeResult([]byte(`{"iterations":10,"metrics":{}}`), 10); err != nil {
		t.Errorf("no metrics: %v", err)
	}
	sketch := `"sketch":{"above":[0,3,32,7]}`
	r, err = decodeResult([]byte(strings.Replace(goodResult, `"n":10`, `"n":10,`+sketch, 1)), 10)
	if err != nil || r.Metrics["x"].Sketch.Count() != 10 {
		t.Errorf("with a sketch: %+v, %v", r, err)
	}
	metric := `{"n":1,"mean":1,"m2":0,"min":1,"max":1}`
	var many strings.Builder
	for i := range cluster.MaxMetrics + 1 {
		if i > 0 {
			many.WriteByte(',')
		}
		b, _ := json.Marshal(string(rune('a'+i%26)) + strings.Repeat("b", i%50) + string(rune(0x4e00+i)))
		many.Write(b)
		many.WriteString(":" + metric)
	}
	for name, c := range map[string]struct{ in, want string }{
		"array":         {`[1]`, "result is not an object"},
		"null":          {`null`, "result is not an object"},
		"unknown":       {`{"iterations":10,"metrics":{},"extra":1}`, `unknown field "extra"`},
		"unknown inner": {strings.Replace(goodResult, `"n":10`, `"n":10,"q":1`, 1), `unknown field "q"`},
		"twice":         {`{"iterations":10,"iterations":10,"metrics":{}}`, `"iterations" stands twice`},
		"metric twice":  {`{"iterations":10,"metrics":{"a":` + metric + `,"a":` + metric + `}}`, `"a" stands twice`},
		"no iterations": {`{"metrics":{}}`, `field "iterations" is missing`},
		"no metrics":    {`{"iterations":10}`, `field "metrics" is missing`},
		"negative":      {`{"iterations":-10,"metrics":{}}`, "number -10"},
		"fraction":      {`{"iterations":1.5,"metrics":{}}`, "number 1.5"},
		"text":          {`{"iterations":"10","metrics":{}}`, "string"},
		"inf":           {`{"iterations":10,"metrics":{"a":{"n":1,"mean":-Inf}}}`, "NaN or infinite"},
		"null metric":   {`{"iterations":10,"metrics":{"a":null}}`, "want n, mean"},
		"many":          {`{"iterations":10,"metrics":{` + many.String() + `}}`, "more than 1024 metrics"},
		"long name":     {`{"iterations":10,"metrics":{"` + strings.Repeat("a", 65) + `":` + metric + `}}`, "metric name of 65 bytes"},
		"n too large":   {strings.Replace(goodResult, `"n":10`, `"n":11`, 1), "n is 11"},
		"deep":          {strings.Repeat(`{"metrics":`, 5000), "cut off"},
		"blank":         {" \n\t", "wrote no result"},
		"sketch lies":   {strings.Replace(goodResult, `"n":10`, `"n":10,"sketch":{"zero":10}`, 1), "outside min and max"},
		"sketch inner":  {strings.Replace(goodResult, `"n":10`, `"n":10,"sketch":{"gamma":2}`, 1), `unknown field "gamma"`},
		"sketch kind":   {strings.Replace(goodResult, `"n":10`, `"n":10,"sketch":[1]`, 1), "array"},
		"too long":      {strings.Repeat(" ", cluster.MaxResultBytes) + "{}", "more than 1048576 bytes"},
	} {
		_, err := decodeResult([]byte(c.in), 10)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func FuzzDecodeResult(f *testing.F) {
	f.Add([]byte(goodResult))
	f.Add([]byte(`{"iterations":10,"metrics":{"a":{"n":1,"mean":NaN}}}`))
	f.Add([]byte(`{"metrics":{"\ud800":{}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeResult(b, 10)
		if err != nil {
			if s := reason(err); s == "" || len(s) > cluster.MaxReason || !utf8.ValidString(s) {
				t.Fatalf("reason %q", s)
			}
			return
		}
		if err := r.Validate(10); err != nil {
			t.Fatalf("an invalid result was accepted: %v", err)
		}
		frame := stream.Frame{Result: &stream.Result{Ref: ref(0, 1), Result: &r}}
		if err := stream.Write(io.Discard, frame); err != nil {
			t.Fatalf("an accepted result cannot be sent: %v", err)
		}
	})
}

func FuzzRunnerFrame(f *testing.F) {
	var buf bytes.Buffer
	for _, v := range []any{
		runnerReply{Loaded: &runnerLoaded{Seconds: 1}},
		runnerReply{Done: &runnerDone{Verdict: verdictExit, Exit: 1, Stderr: []byte("x")}},
	} {
		buf.Reset()
		if err := writeRunnerFrame(&buf, v); err != nil {
			f.Fatal(err)
		}
		f.Add(bytes.Clone(buf.Bytes()))
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		var r runnerReply
		if readRunnerFrame(bytes.NewReader(b), &r) != nil || r.Done == nil {
			return
		}
		if err := r.Done.verdictError(); err != nil && len(reason(err)) > cluster.MaxReason {
			t.Fatal("reason too long")
		}
	})
}

func FuzzOutboxFile(f *testing.F) {
	f.Add([]byte(`{"job":"j","chunk":0,"attempt":1,"error":"x","seconds":1}` + "\n"))
	f.Add([]byte("rot\n{}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		o := newOutbox(1<<20, time.Hour)
		_, _ = o.read(bytes.NewReader(b), time.Time{})
		for _, r := range o.refs() {
			res, ok := o.get(r)
			if !ok || (stream.Frame{Result: &res}).Validate() != nil {
				t.Fatalf("kept an invalid result %+v", res)
			}
			_, _ = o.drop(r)
		}
		if o.bytes != 0 || o.len() != 0 {
			t.Fatalf("%d bytes, %d results left", o.bytes, o.len())
		}
	})
}

func TestCutRunnerFrame(t *testing.T) {
	var buf bytes.Buffer
	if err := writeRunnerFrame(&buf, runnerReply{}); err != nil {
		t.Fatal(err)
	}
	cut := buf.Bytes()[:buf.Len()-1]
	var r runnerReply
	if err := readRunnerFrame(bytes.NewReader(cut), &r); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut: %v", err)
	}
	if err := readRunnerFrame(bytes.NewReader(nil), &r); !errors.Is(err, io.EOF) {
		t.Errorf("end: %v", err)
	}
}

func TestLastWords(t *testing.T) {
	long := strings.Repeat("x ", 5000)
	for name, c := range map[string]struct{ in, want string }{
		"plain": {"no luck\n", "no luck"},
		"panic": {long + "\npanic: boom\n\ngoroutine 1 [running]:\n", "panic: boom goroutine 1 [running]:"},
		"fatal": {"fatal error: out of memory\n" + long, "fatal error: out of memory x"},
		"empty": {"", ""},
	} {
		var kept tail
		for i := 0; i < len(c.in); i += 7 {
			_, _ = kept.Write([]byte(c.in[i:min(len(c.in), i+7)]))
		}
		if name == "fatal" {
			kept.b = []byte(c.in)[:maxStderr]
		}
		if got := lastWords(kept.b); !strings.HasPrefix(got, c.want) || len(got) > cluster.MaxReason/2+3 {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
