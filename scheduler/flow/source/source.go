package source

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/skein-project/skein/cluster/job"
)

// Source says where an output comes from.
type Source struct {
	Kind   string // aggregate, skipped, metric, file, files or provider
	metric string
	stat   string
	File   string // of file, files and provider: its name
	Chunk  int    // of file: of which chunk; negative: of the only one
}

// Kinds of sources, and statistics of a metric.
const (
	Aggregate = "aggregate"
	Skipped   = "skipped"
	Metric    = "metric"
	File      = "file"
	Files     = "files"
	Provider  = "provider"
)

// IsFile reports that s is a file, or a list of some, by their hashes.
func (s Source) IsFile() bool { return s.Kind == File || s.Kind == Files }

// parseFile reads "file:NAME", "file:NAME@CHUNK", "files:NAME" and "provider:NAME".
func parseFile(s string) (out Source, is bool, err error) {
	kind, name, _ := strings.Cut(s, ":")
	out = Source{Kind: kind, File: name, Chunk: -1}
	if !out.IsFile() && kind != Provider {
		return out, false, nil
	}
	if name, at, ok := strings.Cut(name, "@"); ok && kind == File {
		n, err := strconv.ParseUint(at, 10, 31)
		if err != nil || n >= job.MaxChunks {
			return out, true, fmt.Errorf("%.64q: no chunk %.16q, they are counted from 0", s, at)
		}
		out.File, out.Chunk = name, int(n)
	}
	_, err = job.ParseFileName(out.File)
	return out, true, err
}

// Parse reads a source.
func Parse(s string) (Source, error) {
	if s == Aggregate || s == Skipped {
		return Source{Kind: s}, nil
	}
	if out, is, err := parseFile(s); is {
		return out, err
	}
	rest, ok := strings.CutPrefix(s, Metric+":")
	dot := strings.LastIndexByte(rest, '.')
	if !ok || dot < 1 {
		return Source{}, fmt.Errorf("%.64q: want aggregate, skipped, metric:NAME.STATISTIC, file:NAME, file:NAME@CHUNK, files:NAME or provider:NAME", s)
	}
	out := Source{Kind: Metric, metric: rest[:dot], stat: rest[dot+1:]}
	switch out.stat {
	case "n", "mean", "se", "std", "min", "max", "sum":
		return out, nil
	}
	if p, isQuantile := strings.CutPrefix(out.stat, "p"); isQuantile && len(out.metric) <= job.MaxMetricName {
		if q, err := strconv.ParseUint(p, 10, 32); err == nil && quantile(p, q) < 1 {
			return out, nil
		}
	}
	return Source{}, fmt.Errorf("%.64q: unknown statistic %.16q, have: n, mean, se, std, min, max, sum, and pNN, like p50 or p999", s, out.stat)
}

// quantile reads p50 as 0.5, p999 as 0.999.
func quantile(digits string, v uint64) float64 { return float64(v) / math.Pow10(len(digits)) }

// ofFiles takes a file, or a list of some, from what the chunks of a job left.
func (s Source) ofFiles(left []job.OutputFile) (any, error) {
	all := []string{}
	for _, f := range left {
		if f.Name == s.File && (s.Chunk < 0 || s.Chunk == f.Chunk) {
			all = append(all, f.Hash.String())
		}
	}
	switch {
	case s.Kind == Files:
		return all, nil
	case len(all) == 0:
		return nil, fmt.Errorf("the job left no file %s", s.File)
	case len(all) > 1:
		return nil, fmt.Errorf("%d chunks of the job left a file %s: say of which with file:%s@CHUNK, or take files:%s", len(all), s.File, s.File, s.File)
	}
	return all[0], nil
}

// Of takes an output from the result of a job, and what its chunks left.
func (s Source) Of(r *job.Result, left []job.OutputFile) (any, error) {
	if s.IsFile() {
		return s.ofFiles(left)
	}
	if r == nil {
		return nil, errors.New("the job has no result")
	}
	switch s.Kind {
	case Skipped:
		if r.Skipped == nil {
			return []job.Span{}, nil
		}
		return r.Skipped, nil
	case Aggregate:
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
