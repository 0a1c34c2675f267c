package jobs

import (
	"fmt"
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state/canon"
)

// anomalies names the first chunks whose results are odd: of which several
// differ, or whose mean strays from that of all.
func (w *work) anomalies() []job.Anomaly {
	var out []job.Anomaly
	if w.disputed == 0 && len(w.metrics) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(w.metrics))
	roots := make([]job.Metric, len(names))
	for i, name := range names {
		roots[i] = w.metrics[name].root()
	}
	for i := range w.chunks {
		c := &w.chunks[i]
		if c.accept == nil {
			continue
		}
		reason := ""
		if c.disputed {
			reason = "hosts computed different results, and this is the first"
		}
		for k, name := range names {
			leaf, all := w.metrics[name].levels[0][i], roots[k]
			if reason == "" && w.count[chunkAccepted] > alarmAfter && leaf.Strays(all) {
				reason = fmt.Sprintf("the mean of metric %q is %g, more than six standard errors from %g", name, leaf.Mean, all.Mean)
			}
		}
		if reason == "" {
			continue
		}
		out = append(out, job.Anomaly{Chunk: i, Worker: c.accept.worker, Reason: canon.Clip(reason, job.MaxAnomalyReason)})
		if len(out) == job.MaxAnomalies {
			break
		}
	}
	return out
}

// alarmAfter is how many results a job must have before one can be odd.
const alarmAfter = 8
