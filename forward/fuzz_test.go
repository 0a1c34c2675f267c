package forward

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/skein-project/skein/api"
)

// counted reads how many streams were cut for a reason.
func counted(t *testing.T, r *Router, reason string) float64 {
	t.Helper()
	var m dto.Metric
	c, err := r.m.cut.GetMetricWith(prometheus.Labels{"reason": reason})
	if err == nil {
		err = c.Write(&m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

// FuzzRequest reads anything as a request: what is understood can be sent on
// and means the same.
func FuzzRequest(f *testing.F) {
	g := readGolden(f)
	for _, lines := range g.requests {
		for _, line := range lines {
			f.Add([]byte(line))
		}
	}
	f.Add([]byte(`{"actor":"x","follow_job":{"job":"j"}}`))
	f.Add([]byte(`{"actor":"x","what":{},"stop":null,"drain":{}}`))
	known := func(name string) bool {
		for _, o := range Operations() {
			if o.Name == name {
				return true
			}
		}
		return false
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		req, err := readRequest(bytes.NewReader(text), known)
		if err != nil || req.name == "" {
			return
		}
		again, err := encodeRequest(req.name, req.actor, req.body)
		if err != nil {
			t.Fatal(err)
		}
		same, err := readRequest(bytes.NewReader(again), known)
		if err != nil || same.name != req.name || same.actor != req.actor {
			t.Fatalf("%q is %+v, sent on %+v: %v", text, req, same, err)
		}
		var a, b bytes.Buffer
		if json.Compact(&a, req.body) != nil || json.Compact(&b, same.body) != nil {
			t.Fatalf("%q has a body that is no JSON", text)
		}
	})
}

// FuzzStream reads anything as a stream of frames: it ends, and no line is
// longer than a frame.
func FuzzStream(f *testing.F) {
	f.Add([]byte("{\"frame\":{\"id\":\"j\"}}\n\n{\"end\":true}\n"))
	f.Add([]byte("{\"frame\":1}\n{\"problem\":{\"code\":\"x\"},\"lacks\":true}\n"))
	f.Add(bytes.Repeat([]byte("\n"), 100))
	f.Add(append(bytes.Repeat([]byte(" "), MaxFrame+1), '\n'))
	f.Fuzz(func(t *testing.T, text []byte) {
		lines := newLineReader(bytes.NewReader(text))
		empty := 0
		for n := 0; ; n++ {
			x, err := lines.next(func() error { empty++; return nil })
			if err != nil {
				return
			}
			if len(x.Frame) > MaxFrame || n+empty > len(text) {
				t.Fatalf("%d bytes in line %d", len(x.Frame), n)
			}
			if x.Frame != nil {
				_, _ = unmarshal[api.Job](x.Frame) // whatever it is
			}
		}
	})
}
