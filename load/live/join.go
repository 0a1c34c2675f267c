package live

import (
	"maps"
	"slices"

	"github.com/skein-project/skein/api"
)

// Join is what two answers, one after the other, tell together: for whoever takes longer to take
// them in than they come.
func Join(a, b api.LoadLive) api.LoadLive {
	if b.Again {
		return b
	}
	out := b
	out.Again, out.Seconds = a.Again, a.Seconds+b.Seconds
	out.Steps = slices.Clone(a.Steps)
	for _, one := range b.Steps {
		i := slices.IndexFunc(out.Steps, func(old api.LoadStep) bool { return old.Name == one.Name })
		if i < 0 {
			one.Classes = maps.Clone(one.Classes)
			out.Steps = append(out.Steps, one)
			continue
		}
		out.Steps[i] = add(out.Steps[i], one)
	}
	out.Hosts = slices.Clone(b.Hosts)
	for i, h := range out.Hosts {
		for _, old := range a.Hosts {
			if old.Host == h.Host {
				out.Hosts[i].Requests += old.Requests
			}
		}
	}
	if len(out.Thresholds) == 0 {
		out.Thresholds = a.Thresholds
	}
	if out.Latency.P50 == 0 {
		out.Latency = a.Latency
	}
	return out
}
