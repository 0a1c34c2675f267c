package trace

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// The parts of an ExportTraceServiceRequest of OpenTelemetry that a job needs, as its
// JSON has them: identifiers in hex, 64-bit numbers as text.
type (
	otlpRequest struct {
		ResourceSpans []otlpResource `json:"resourceSpans"`
	}
	otlpResource struct {
		Resource   otlpAttributes `json:"resource"`
		ScopeSpans []otlpScope    `json:"scopeSpans"`
	}
	otlpAttributes struct {
		Attributes []otlpAttribute `json:"attributes"`
	}
	otlpAttribute struct {
		Key   string    `json:"key"`
		Value otlpValue `json:"value"`
	}
	otlpValue struct {
		String *string `json:"stringValue,omitempty"`
		Int    *string `json:"intValue,omitempty"`
		Bool   *bool   `json:"boolValue,omitempty"`
	}
	otlpScope struct {
		Scope struct {
			Name string `json:"name"`
		} `json:"scope"`
		Spans []otlpSpan `json:"spans"`
	}
	otlpSpan struct {
		TraceID    string          `json:"traceId"`
		SpanID     string          `json:"spanId"`
		Parent     string          `json:"parentSpanId,omitempty"`
		Name       string          `json:"name"`
		Kind       int             `json:"kind"`
		Start      string          `json:"startTimeUnixNano"`
		End        string          `json:"endTimeUnixNano"`
		Attributes []otlpAttribute `json:"attributes"`
		Events     []otlpEvent     `json:"events,omitempty"`
		Status     otlpStatus      `json:"status"`
	}
	otlpEvent struct {
		Time       string          `json:"timeUnixNano"`
		Name       string          `json:"name"`
		Attributes []otlpAttribute `json:"attributes,omitempty"`
	}
	otlpStatus struct {
		Code    int    `json:"code,omitempty"` // 0 unset, 1 ok, 2 error
		Message string `json:"message,omitempty"`
	}
)

// Values of the protocol.
const (
	kindInternal = 1
	statusOK     = 1
	statusError  = 2
)

// OTLP writes the trace as the body of a POST to /v1/traces of an OpenTelemetry
// collector.
func (t *Trace) OTLP() ([]byte, error) {
	root := t.span("job", t.title(), t.Start, t.End)
	root.Parent = ""
	root.Attributes = attributes(
		"skein.job.id", string(t.Job), "skein.job.name", t.Name, "skein.job.owner", t.Owner, "skein.job.state", string(t.State),
		"skein.job.chunks", t.Chunks, "skein.open", !t.State.Final(), "skein.omitted_changes", t.Omitted, "skein.log_compacted", t.Compacted,
	)
	switch t.State {
	case job.Completed:
		root.Status = otlpStatus{Code: statusOK}
	case job.Failed, job.Partial, job.TimedOut, job.Skipped:
		root.Status = otlpStatus{Code: statusError, Message: t.Reason}
	}
	for _, m := range t.Moments {
		root.Events = append(root.Events, otlpEvent{
			Time: nanos(m.At), Name: m.Name,
			Attributes: attributes("skein.state", m.State, "skein.actor", m.Actor, "skein.reason", m.Reason, "skein.term", int(m.Term), "host.name", string(m.Node)),
		})
	}
	spans := []otlpSpan{root}
	if t.Waited.After(t.Start) {
		spans = append(spans, t.span("wait", "wait for a worker", t.Start, t.Waited))
	}
	out := otlpRequest{ResourceSpans: []otlpResource{resource("", spans)}}
	byWorker := map[cluster.NodeID][]otlpSpan{}
	for _, a := range t.Attempts {
		s := t.span(fmt.Sprintf("chunk %d %d", a.Chunk, a.Number), fmt.Sprintf("chunk %d", a.Chunk), a.Start, a.End)
		s.Attributes = attributes(
			"skein.chunk", a.Chunk, "skein.attempt", a.Number, "skein.worker", string(a.Worker), "skein.term", int(a.Term),
			"skein.outcome", string(a.Outcome), "skein.reason", a.Reason, "skein.open", a.Outcome == Open,
		)
		switch a.Outcome {
		case Done:
			s.Status = otlpStatus{Code: statusOK}
		case Failed, Reclaimed:
			s.Status = otlpStatus{Code: statusError, Message: a.Reason}
		}
		byWorker[a.Worker] = append(byWorker[a.Worker], s)
	}
	for _, w := range t.workers() {
		out.ResourceSpans = append(out.ResourceSpans, resource(w, byWorker[w]))
	}
	return encode(out)
}

// span makes one below the job's; what says what it is within the job.
func (t *Trace) span(what, name string, start, end time.Time) otlpSpan {
	return otlpSpan{
		TraceID: identifier(16, t.Job, ""), SpanID: identifier(8, t.Job, what), Parent: identifier(8, t.Job, "job"),
		Name: name, Kind: kindInternal, Start: nanos(start), End: nanos(end), Attributes: []otlpAttribute{},
	}
}

// resource is what runs at a worker, or in the cluster as a whole.
func resource(worker cluster.NodeID, spans []otlpSpan) otlpResource {
	r := otlpResource{ScopeSpans: []otlpScope{{Spans: spans}}}
	r.ScopeSpans[0].Scope.Name = "skein"
	r.Resource.Attributes = attributes("service.name", "skein", "host.name", string(worker))
	return r
}

// identifier is the first bytes of a hash, in hex: never all zeros, as the protocol wants.
func identifier(size int, id job.ID, what string) string {
	sum := sha256.Sum256([]byte("skein trace\x00" + string(id) + "\x00" + what))
	return hex.EncodeToString(sum[:size])
}

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

// attributes makes them of names and values; those that are empty text are left out.
func attributes(pairs ...any) []otlpAttribute {
	out := []otlpAttribute{}
	for i := 0; i < len(pairs); i += 2 {
		a := otlpAttribute{Key: pairs[i].(string)} //nolint:forcetypeassert // the callers above
		switch v := pairs[i+1].(type) {
		case string:
			if v == "" {
				continue
			}
			a.Value.String = &v
		case int:
			a.Value.Int = new(strconv.Itoa(v))
		case bool:
			a.Value.Bool = &v
		}
		out = append(out, a)
	}
	return out
}

func encode(v any) ([]byte, error) {
	out, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode trace: %w", err)
	}
	return append(out, '\n'), nil
}
