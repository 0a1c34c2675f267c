package pressure

import (
	"math"
	"runtime/metrics"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// quantile is what p99 is of counts in buckets, of which above[i] ends the i-th; 0:
// nothing was counted. What lies above the last bound counts as that.
func quantile(counts []uint64, above []float64, q float64) float64 {
	var total uint64
	for _, n := range counts {
		total += n
	}
	if total == 0 {
		return 0
	}
	want := uint64(math.Ceil(q * float64(total)))
	last := 0.0
	for i, n := range counts {
		if b := above[i]; !math.IsInf(b, 0) {
			last = b
		}
		if n >= want {
			return last
		}
		want -= n
	}
	return last
}

// since takes what was counted before away from what is counted now.
func since(now, before []uint64) []uint64 {
	out := make([]uint64, len(now))
	for i, n := range now {
		out[i] = n
		if i < len(before) && before[i] <= n {
			out[i] = n - before[i]
		}
	}
	return out
}

// goroutines measures how long goroutines wait until they run.
type goroutines struct {
	sample [1]metrics.Sample
	before []uint64
}

const latencies = "/sched/latencies:seconds"

// p99 is of those that began to run since the last call; 0: none, or not known.
func (g *goroutines) p99() time.Duration {
	g.sample[0].Name = latencies
	metrics.Read(g.sample[:])
	if g.sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return 0
	}
	h := g.sample[0].Value.Float64Histogram()
	counts := since(h.Counts, g.before)
	g.before = append(g.before[:0], h.Counts...)
	return seconds(quantile(counts, h.Buckets[1:], 0.99))
}

// syncs measures how long syncs of the event log take, by its own histogram.
type syncs struct {
	of     prometheus.Metric
	before []uint64
}

// p99 is of those since the last call; 0: there was none.
func (s *syncs) p99() time.Duration {
	var m dto.Metric
	if s.of == nil || s.of.Write(&m) != nil {
		return 0
	}
	h := m.GetHistogram()
	var counts []uint64
	var above []float64
	var below uint64
	for _, b := range h.GetBucket() {
		counts, above = append(counts, b.GetCumulativeCount()-below), append(above, b.GetUpperBound())
		below = b.GetCumulativeCount()
	}
	counts, above = append(counts, h.GetSampleCount()-below), append(above, math.Inf(1))
	fresh := since(counts, s.before)
	s.before = counts
	return seconds(quantile(fresh, above, 0.99))
}

func seconds(v float64) time.Duration {
	if !(v > 0 && v < 1e6) {
		return 0
	}
	return time.Duration(v * float64(time.Second))
}
