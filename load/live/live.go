package live

import (
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/rule"
	"github.com/skein-project/skein/load/stat"
)

// Steps are the counts of a span, by the steps of a plan; warm has those of warm-up, setup
// and teardown.
func Steps(p *load.Plan, all, warm *stat.Bank) []api.LoadStep {
	out := make([]api.LoadStep, 0, len(p.Steps))
	for i, st := range p.Steps {
		s := &all.Series[i]
		one := api.LoadStep{Name: st.Name, Requests: s.Sent(), Failed: s.Failed(), Dropped: s.Classes[load.Dropped], Warm: warm.Series[i].Sent(), Classes: map[string]uint64{}, Latency: Times(&s.Times[stat.Latency])}
		for c, n := range s.Classes {
			if n > 0 {
				one.Classes[load.Class(c).String()] = n
			}
		}
		for k := range st.Checks {
			t := all.Checks[st.FirstCheck+k]
			one.Checks.Passed, one.Checks.Failed = one.Checks.Passed+t.Passed, one.Checks.Failed+t.Failed
		}
		out = append(out, one)
	}
	return out
}

// Phases are what parts of requests took, of all steps.
func Phases(b *stat.Bank) []api.LoadPhase {
	var out []api.LoadPhase
	all := b.All()
	for p := stat.Latency + 1; p < stat.Phases; p++ {
		if h := &all.Times[p]; h.N > 0 {
			out = append(out, api.LoadPhase{Name: p.String(), Count: h.N, Times: Times(h)})
		}
	}
	return out
}

// Times are the figures of a distribution.
func Times(h *stat.Hist) api.LoadTimes {
	if h.N == 0 {
		return api.LoadTimes{}
	}
	return api.LoadTimes{P50: h.Quantile(0.5), P95: h.Quantile(0.95), P99: h.Quantile(0.99), Max: h.Max()}
}

// Thresholds are thresholds as they are.
func Thresholds(list []rule.Outcome) []api.LoadThreshold {
	var out []api.LoadThreshold
	for _, o := range list {
		x := api.LoadThreshold{Text: o.Text, OK: o.OK, Unit: o.Unit, Samples: o.Samples}
		if o.Samples {
			x.Value = o.Value
		}
		out = append(out, x)
	}
	return out
}
