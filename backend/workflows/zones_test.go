package workflows

import (
	"errors"
	"strings"
	"testing"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
)

// TestCheckZones: each zone of each job of a step is one of a host, or 422.
func TestCheckZones(t *testing.T) {
	known := func(z string) bool { return z == "ams" || z == "fra" }
	spec := func(zones ...string) job.Spec {
		return job.Spec{Key: "k", Iterations: 10, Policy: job.Policy{Zones: zones}}
	}
	each := func(zones ...string) flow.Def {
		d, err := (flow.Zoned{Job: spec()}).Workflow(zones)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	provider := spec("mars")
	for name, c := range map[string]struct {
		def  flow.Def
		want string
	}{
		"each":             {each("ams", "fra"), ""},
		"each, unknown":    {each("ams", "mars"), `step zone_mars: no host is in zone "mars"`},
		"no zone":          {flow.Def{Steps: []flow.Step{{Name: "a", Job: spec()}}}, ""},
		"one of several":   {flow.Def{Steps: []flow.Step{{Name: "a", Job: spec("ams", "fro")}}}, `step a: no host is in zone "fro"`},
		"of a provider":    {flow.Def{Steps: []flow.Step{{Name: "a", Job: spec("ams"), Provider: &provider}}}, `step a: no host is in zone "mars"`},
		"an expression":    {flow.Def{Steps: []flow.Step{{Name: "a", Job: spec("${item.zone}")}}}, ""},
		"long and hostile": {each(strings.Repeat("\x1b", 5000)), `no host is in zone "\x1b`},
	} {
		err := checkZones(c.def, known)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		p, ok := errors.AsType[*api.Problem](err)
		if !ok || p.Status != 422 || !strings.Contains(p.Detail, c.want) || len(p.Detail) > 200 {
			t.Errorf("%s: %v, want 422 with %s", name, err, c.want)
		}
	}
}
