package report

import (
	"math"
	"strconv"

	"github.com/skein-project/skein/load/stat"
	"github.com/skein-project/skein/present"
)

// Difference is a figure of two runs.
type Difference struct {
	Step   string  `json:"step"` // empty: of all
	What   string  `json:"what"`
	Unit   string  `json:"unit"`
	Old    float64 `json:"old"`
	New    float64 `json:"new"`
	Change float64 `json:"change"` // share of the old; for better or worse
	// Worse: by more than is allowed, and than quantiles are exact to.
	Worse bool `json:"worse"`
}

// failedSlack is how much of the requests may fail in addition, whatever share is
// allowed: of next to none even one more would be a multiple.
const failedSlack = 0.001

// Compare says how a run differs from an older one. Allowed is the share by which a
// figure may be worse.
func Compare(old, now *Report, allowed float64) []Difference {
	out := pair("", old.Rate, now.Rate, old.Failed, now.Failed, old.Latency, now.Latency, allowed)
	for _, s := range now.Steps {
		for _, o := range old.Steps {
			if o.Name == s.Name && o.Latency.Count > 0 && s.Latency.Count > 0 {
				out = append(out, pair(s.Name, o.Rate, s.Rate, o.Failed, s.Failed, o.Latency, s.Latency, allowed)...)
			}
		}
	}
	return out
}

func pair(step string, oldRate, rate, oldFailed, failed float64, o, n Times, allowed float64) []Difference {
	d := func(what, unit string, old, now float64, lowerIsBetter bool) Difference {
		x := Difference{Step: step, What: what, Unit: unit, Old: old, New: now}
		if old != 0 {
			x.Change = (now - old) / old
		}
		bound := allowed + 2*stat.Accuracy()
		if unit != "s" {
			bound = allowed
		}
		x.Worse = lowerIsBetter && x.Change > bound || !lowerIsBetter && -x.Change > bound
		return x
	}
	share := d("failed", "share", oldFailed, failed, true)
	share.Worse = failed > oldFailed*(1+allowed)+failedSlack
	return []Difference{
		d("p50", "s", o.P50, n.P50, true), d("p95", "s", o.P95, n.P95, true), d("p99", "s", o.P99, n.P99, true),
		d("rate", "/s", oldRate, rate, false), share,
	}
}

// CompareTable shows differences.
func CompareTable(list []Difference) present.Table {
	t := present.NewTable("STEP", "FIGURE", "OLD", "NEW", "CHANGE", "")
	for _, d := range list {
		step, state, change := d.Step, "", "-"
		if step == "" {
			step = "all"
		}
		if d.Worse {
			state = "fail"
		}
		if d.Old != 0 && !math.IsNaN(d.Change) {
			change = strconv.FormatFloat(d.Change*100, 'f', 1, 64) + " %"
			if d.Change > 0 {
				change = "+" + change
			}
		}
		t.Add(step, d.What, Quantity(d.Old, d.Unit), Quantity(d.New, d.Unit), change, state)
	}
	return t
}
