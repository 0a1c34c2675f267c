package executor

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/wasmtest"
	"github.com/skein-project/skein/scheduler/stream"
	"github.com/skein-project/skein/worker/runner"
)

func TestDecodeResult(t *testing.T) {
	r, err := decodeResult([]byte(" \n"+wasmtest.GoodResult+"\n\n"), 10)
	if err != nil || r.Metrics["x"] != (job.Metric{N: 10, Mean: 2, M2: 10, Min: 1, Max: 3}) {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := decodeResult([]byte(`{"iterations":10,"metrics":{}}`), 10); err != nil {
		t.Errorf("no metrics: %v", err)
	}
	sketch := `"sketch":{"above":[0,3,32,7]}`
	r, err = decodeResult([]byte(strings.Replace(wasmtest.GoodResult, `"n":10`, `"n":10,`+sketch, 1)), 10)
	if err != nil || r.Metrics["x"].Sketch.Count() != 10 {
		t.Errorf("with a sketch: %+v, %v", r, err)
	}
	metric := `{"n":1,"mean":1,"m2":0,"min":1,"max":1}`
	var many strings.Builder
	for i := range job.MaxMetrics + 1 {
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
		"unknown inner": {strings.Replace(wasmtest.GoodResult, `"n":10`, `"n":10,"q":1`, 1), `unknown field "q"`},
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
		"n too large":   {strings.Replace(wasmtest.GoodResult, `"n":10`, `"n":11`, 1), "n is 11"},
		"deep":          {strings.Repeat(`{"metrics":`, 5000), "cut off"},
		"blank":         {" \n\t", "wrote no result"},
		"sketch lies":   {strings.Replace(wasmtest.GoodResult, `"n":10`, `"n":10,"sketch":{"zero":10}`, 1), "outside min and max"},
		"sketch inner":  {strings.Replace(wasmtest.GoodResult, `"n":10`, `"n":10,"sketch":{"gamma":2}`, 1), `unknown field "gamma"`},
		"sketch kind":   {strings.Replace(wasmtest.GoodResult, `"n":10`, `"n":10,"sketch":[1]`, 1), "array"},
		"too long":      {strings.Repeat(" ", job.MaxResultBytes) + "{}", "more than 1048576 bytes"},
	} {
		_, err := decodeResult([]byte(c.in), 10)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func FuzzDecodeResult(f *testing.F) {
	f.Add([]byte(wasmtest.GoodResult))
	f.Add([]byte(`{"iterations":10,"metrics":{"a":{"n":1,"mean":NaN}}}`))
	f.Add([]byte(`{"metrics":{"\ud800":{}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeResult(b, 10)
		if err != nil {
			if s := job.ReasonOf(err); s == "" || len(s) > cluster.MaxReason || !utf8.ValidString(s) {
				t.Fatalf("reason %q", s)
			}
			return
		}
		if err := r.Validate(10); err != nil {
			t.Fatalf("an invalid result was accepted: %v", err)
		}
		frame := stream.Frame{Result: &stream.Result{Attempt: job.Attempt{Job: "j", Number: 1}, Result: &r}}
		if err := stream.Write(io.Discard, frame); err != nil {
			t.Fatalf("an accepted result cannot be sent: %v", err)
		}
	})
}

func FuzzRunnerFrame(f *testing.F) {
	var buf bytes.Buffer
	for _, v := range []any{
		runner.Reply{Loaded: &runner.Loaded{Seconds: 1}},
		runner.Reply{Done: &runner.Done{Verdict: runner.VerdictExit, Exit: 1, Stderr: []byte("x")}},
	} {
		buf.Reset()
		if err := runner.WriteFrame(&buf, v); err != nil {
			f.Fatal(err)
		}
		f.Add(bytes.Clone(buf.Bytes()))
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		var r runner.Reply
		if runner.ReadFrame(bytes.NewReader(b), &r) != nil || r.Done == nil {
			return
		}
		if err := verdictError(r.Done); err != nil && len(job.ReasonOf(err)) > cluster.MaxReason {
			t.Fatal("reason too long")
		}
	})
}
