package push

import (
	"encoding/json"
	"strconv"
)

// The message ExportMetricsServiceRequest in JSON, as far as it is needed
// (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding).
type (
	otlpRequest struct {
		ResourceMetrics []otlpResourceMetrics `json:"resourceMetrics"`
	}
	otlpResourceMetrics struct {
		Resource     otlpResource       `json:"resource"`
		ScopeMetrics []otlpScopeMetrics `json:"scopeMetrics"`
	}
	otlpResource struct {
		Attributes []otlpAttribute `json:"attributes"`
	}
	otlpScopeMetrics struct {
		Scope   otlpScope    `json:"scope"`
		Metrics []otlpMetric `json:"metrics"`
	}
	otlpScope struct {
		Name string `json:"name"`
	}
	otlpMetric struct {
		Name  string     `json:"name"`
		Unit  string     `json:"unit"`
		Sum   *otlpSum   `json:"sum,omitempty"`
		Gauge *otlpGauge `json:"gauge,omitempty"`
	}
	otlpSum struct {
		Points      []otlpPoint `json:"dataPoints"`
		Temporality int         `json:"aggregationTemporality"`
		Monotonic   bool        `json:"isMonotonic"`
	}
	otlpGauge struct {
		Points []otlpPoint `json:"dataPoints"`
	}
	otlpPoint struct {
		Attributes []otlpAttribute `json:"attributes"`
		Start      string          `json:"startTimeUnixNano,omitempty"`
		Time       string          `json:"timeUnixNano"`
		Double     float64         `json:"asDouble"`
	}
	otlpAttribute struct {
		Key   string    `json:"key"`
		Value otlpValue `json:"value"`
	}
	otlpValue struct {
		String string `json:"stringValue"`
	}
)

const cumulative = 2 // AGGREGATION_TEMPORALITY_CUMULATIVE

// otlpExport is a window as OTLP/HTTP takes it, at /v1/metrics.
func otlpExport(r Run, w Window, t totals) []byte {
	units := map[string]string{"skein_load_requests_total": "{request}", "skein_load_latency_seconds": "s", "skein_load_users": "{user}", "skein_load_queue": "{request}"}
	var metrics []otlpMetric
	for _, s := range samples(r, w, t) {
		p := otlpPoint{Time: nanos(w.At.UnixNano()), Double: s.v, Attributes: []otlpAttribute{}}
		name := ""
		for _, l := range s.labels {
			switch l[0] {
			case "__name__":
				name = l[1]
			case "run", "test": // of the resource
			default:
				p.Attributes = append(p.Attributes, attribute(l[0], l[1]))
			}
		}
		if n := len(metrics); n == 0 || metrics[n-1].Name != name {
			m := otlpMetric{Name: name, Unit: units[name]}
			if name == "skein_load_requests_total" {
				m.Sum = &otlpSum{Temporality: cumulative, Monotonic: true}
			} else {
				m.Gauge = &otlpGauge{}
			}
			metrics = append(metrics, m)
		}
		switch m := &metrics[len(metrics)-1]; {
		case m.Sum != nil:
			p.Start = nanos(r.Start.UnixNano())
			m.Sum.Points = append(m.Sum.Points, p)
		default:
			m.Gauge.Points = append(m.Gauge.Points, p)
		}
	}
	text, err := json.Marshal(otlpRequest{[]otlpResourceMetrics{{
		Resource:     otlpResource{[]otlpAttribute{attribute("service.name", "skein-load"), attribute("skein.run", r.ID), attribute("skein.test", r.Name)}},
		ScopeMetrics: []otlpScopeMetrics{{otlpScope{"skein/load"}, metrics}},
	}}})
	if err != nil {
		panic(err) // strings, and numbers that are finite
	}
	return text
}

func attribute(key, value string) otlpAttribute { return otlpAttribute{key, otlpValue{value}} }

// nanos is a time as JSON has it in OTLP: 64 bits as text.
func nanos(n int64) string { return strconv.FormatInt(n, 10) }
