package push

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/golang/snappy"
	"google.golang.org/protobuf/encoding/protowire"
)

// sample is one value of one series; labels are pairs in the order of their names.
type sample struct {
	labels [][2]string
	v      float64
}

// samples are what a run has counted so far, and what is now.
func samples(r Run, w Window, t totals) []sample {
	of := func(name string, more ...[2]string) [][2]string {
		l := append([][2]string{{"__name__", name}, {"run", r.ID}, {"test", r.Name}}, more...)
		slices.SortFunc(l, func(a, b [2]string) int { return cmp.Compare(a[0], b[0]) })
		return slices.DeleteFunc(l, func(p [2]string) bool { return p[1] == "" }) // no label is an empty one
	}
	var out []sample
	for _, key := range slices.SortedFunc(maps.Keys(t), func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	}) {
		out = append(out, sample{of("skein_load_requests_total", [2]string{"step", key[0]}, [2]string{"class", key[1]}), float64(t[key])})
	}
	for _, s := range w.Steps {
		if s.Max == 0 {
			continue
		}
		for _, q := range s.quantiles() {
			out = append(out, sample{of("skein_load_latency_seconds", [2]string{"step", s.Name}, [2]string{"quantile", q.name}), q.v})
		}
	}
	return append(out,
		sample{of("skein_load_users"), float64(w.Users)},
		sample{of("skein_load_queue"), float64(w.Queue)})
}

// writeRequest is a message prometheus.WriteRequest of remote write 1.0, in a block of
// Snappy (https://prometheus.io/docs/specs/prw/remote_write_spec/): timeseries = 1 {labels
// = 1 {name = 1, value = 2}, samples = 2 {value = 1, timestamp = 2}}.
func writeRequest(all []sample, millis int64) []byte {
	field := func(dst []byte, n protowire.Number, content []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(dst, n, protowire.BytesType), content)
	}
	var b []byte
	for _, s := range all {
		var series []byte
		for _, l := range s.labels {
			series = field(series, 1, field(field(nil, 1, []byte(l[0])), 2, []byte(l[1])))
		}
		one := protowire.AppendFixed64(protowire.AppendTag(nil, 1, protowire.Fixed64Type), math.Float64bits(s.v))
		one = protowire.AppendVarint(protowire.AppendTag(one, 2, protowire.VarintType), uint64(millis)) //nolint:gosec // protobuf's int64
		b = field(b, 1, field(series, 2, one))
	}
	return snappy.Encode(nil, b)
}
