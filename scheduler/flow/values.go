package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"

	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
)

// errLater says that a value depends on what another step computes.
var errLater = errors.New("not known yet")

// items lists the items of a step with each or matrix.
func (n *node) items(look func(path []string) (any, error)) ([]any, error) {
	list := func(what string, v value) ([]any, error) {
		got, err := v.fill(look)
		if err != nil {
			return nil, err
		}
		out, ok := got.([]any)
		if !ok {
			return nil, fmt.Errorf("%s: %.64s is no list", what, show(got))
		}
		if len(out) > flow.MaxInstances {
			return nil, fmt.Errorf("%s: %d items, at most %d are allowed", what, len(out), flow.MaxInstances)
		}
		return out, nil
	}
	if n.each != nil {
		return list("each", *n.each)
	}
	items := []any{map[string]any{}}
	for _, a := range n.axes {
		values, err := list("matrix."+a.name, a.v)
		if err != nil {
			return nil, err
		}
		if len(items)*len(values) > flow.MaxInstances {
			return nil, fmt.Errorf("matrix: %d items, at most %d are allowed", len(items)*len(values), flow.MaxInstances)
		}
		next := make([]any, 0, len(items)*len(values))
		for _, item := range items {
			for _, v := range values {
				one := map[string]any{a.name: v}
				maps.Copy(one, item.(map[string]any))
				next = append(next, one)
			}
		}
		items = next
	}
	return items, nil
}

// source says where an output comes from.
type source struct {
	kind   string // aggregate, skipped, metric, file or files
	metric string
	stat   string
	file   string // of file and files: its name
	chunk  int    // of file: of which chunk; negative: of the only one
}

// Kinds of sources, and statistics of a metric.
const (
	sourceAggregate = "aggregate"
	sourceSkipped   = "skipped"
	sourceMetric    = "metric"
	sourceFile      = "file"
	sourceFiles     = "files"
)

// isFile reports that s is a file, or a list of some, by their hashes.
func (s source) isFile() bool { return s.kind == sourceFile || s.kind == sourceFiles }

// parseFile reads "file:NAME", "file:NAME@CHUNK" and "files:NAME".
func parseFile(s string) (out source, is bool, err error) {
	kind, name, _ := strings.Cut(s, ":")
	out = source{kind: kind, file: name, chunk: -1}
	if !out.isFile() {
		return out, false, nil
	}
	if name, at, ok := strings.Cut(name, "@"); ok && kind == sourceFile {
		n, err := strconv.ParseUint(at, 10, 31)
		if err != nil || n >= job.MaxChunks {
			return out, true, fmt.Errorf("%.64q: no chunk %.16q, they are counted from 0", s, at)
		}
		out.file, out.chunk = name, int(n)
	}
	_, err = job.ParseFileName(out.file)
	return out, true, err
}

func parseSource(s string) (source, error) {
	if s == sourceAggregate || s == sourceSkipped {
		return source{kind: s}, nil
	}
	if out, is, err := parseFile(s); is {
		return out, err
	}
	rest, ok := strings.CutPrefix(s, sourceMetric+":")
	dot := strings.LastIndexByte(rest, '.')
	if !ok || dot < 1 {
		return source{}, fmt.Errorf("%.64q: want aggregate, skipped, metric:NAME.STATISTIC, file:NAME, file:NAME@CHUNK or files:NAME", s)
	}
	out := source{kind: sourceMetric, metric: rest[:dot], stat: rest[dot+1:]}
	switch out.stat {
	case "n", "mean", "se", "std", "min", "max", "sum":
		return out, nil
	}
	if p, isQuantile := strings.CutPrefix(out.stat, "p"); isQuantile && len(out.metric) <= job.MaxMetricName {
		if q, err := strconv.ParseUint(p, 10, 32); err == nil && quantile(p, q) < 1 {
			return out, nil
		}
	}
	return source{}, fmt.Errorf("%.64q: unknown statistic %.16q, have: n, mean, se, std, min, max, sum, and pNN, like p50 or p999", s, out.stat)
}

// quantile reads p50 as 0.5, p999 as 0.999.
func quantile(digits string, v uint64) float64 { return float64(v) / math.Pow10(len(digits)) }

// ofFiles takes a file, or a list of some, from what the chunks of a job left.
func (s source) ofFiles(left []job.OutputFile) (any, error) {
	all := []string{}
	for _, f := range left {
		if f.Name == s.file && (s.chunk < 0 || s.chunk == f.Chunk) {
			all = append(all, f.Hash.String())
		}
	}
	switch {
	case s.kind == sourceFiles:
		return all, nil
	case len(all) == 0:
		return nil, fmt.Errorf("the job left no file %s", s.file)
	case len(all) > 1:
		return nil, fmt.Errorf("%d chunks of the job left a file %s: say of which with file:%s@CHUNK, or take files:%s", len(all), s.file, s.file, s.file)
	}
	return all[0], nil
}

// of takes an output from the result of a job, and what its chunks left.
func (s source) of(r *job.Result, left []job.OutputFile) (any, error) {
	if s.isFile() {
		return s.ofFiles(left)
	}
	if r == nil {
		return nil, errors.New("the job has no result")
	}
	switch s.kind {
	case sourceSkipped:
		if r.Skipped == nil {
			return []job.Span{}, nil
		}
		return r.Skipped, nil
	case sourceAggregate:
		out := make(map[string]any, len(r.Metrics))
		for name, m := range r.Metrics {
			out[name] = map[string]any{"n": m.N, "mean": m.Mean, "std": m.Std(), "se": m.SE(), "min": m.Min, "max": m.Max}
		}
		return out, nil
	}
	m, ok := r.Metrics[s.metric]
	if !ok {
		return nil, fmt.Errorf("the job has no metric %s", s.metric)
	}
	v := 0.0
	switch s.stat {
	case "n":
		return m.N, nil
	case "mean":
		v = m.Mean
	case "se":
		v = m.SE()
	case "std":
		v = m.Std()
	case "min":
		v = m.Min
	case "max":
		v = m.Max
	case "sum":
		v = m.Mean * float64(m.N)
	default:
		if m.Sketch == nil {
			return nil, fmt.Errorf("metric %s has no sketch, of which %s is read", s.metric, s.stat)
		}
		digits := s.stat[1:]
		n, _ := strconv.ParseUint(digits, 10, 32)
		v = m.Sketch.Quantile(quantile(digits, n))
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil, fmt.Errorf("metric %s: %s is not finite", s.metric, s.stat)
	}
	return v, nil
}

// outputsOf takes all outputs of a step from the result of a job, and what its chunks
// left.
func (n *node) outputsOf(r *job.Result, left []job.OutputFile) (map[string]json.RawMessage, error) {
	if len(n.outputs) == 0 {
		return nil, nil
	}
	out, size := make(map[string]json.RawMessage, len(n.outputs)), 0
	for _, name := range sortedKeys(n.outputs) {
		v, err := n.outputs[name].of(r, left)
		if err != nil {
			return nil, fmt.Errorf("output %s: %w", name, err)
		}
		b, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("output %s: %w", name, err)
		}
		if size += len(name) + len(b); size > flow.MaxValueBytes {
			return nil, fmt.Errorf("output %s: the outputs have more than %d bytes", name, flow.MaxValueBytes)
		}
		out[name] = b
	}
	return out, nil
}
