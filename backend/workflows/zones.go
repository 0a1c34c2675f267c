package workflows

import (
	"context"
	"fmt"
	"strings"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/scheduler/runs"
)

// SubmitZoned asks the holder for a run of a job in each of several zones. What the job needs
// was checked, and put where the holder finds it.
func (w *Runs) SubmitZoned(ctx context.Context, actor, key string, q flow.Zoned) (forward.RunSubmitted, error) {
	if err := w.o.Aware(event.FailedOfWorkers()); err != nil { // of the same version
		return forward.RunSubmitted{}, err
	}
	out, err := forward.AskHolder(ctx, w.o.Remote, forward.RunWorkflow, actor, forward.RunSubmission{Key: key, Zoned: &q})
	if err != nil {
		return out, err
	}
	w.Await(ctx, func(st *state.State) bool { _, ok := st.Flows().Run(out.Run); return ok })
	return out, nil
}

// definition is the definition of what was submitted, and the zones that were chosen for it.
// A run that is known already stays where it was put.
func (w *Runs) definition(owner string, q forward.RunSubmission) (def flow.Def, zones []string, err error) {
	if q.Zoned == nil {
		return q.Definition, nil, nil
	}
	if err := q.Zoned.Check(); err != nil {
		return def, nil, err
	}
	id := flow.NewRunID(owner, q.Key)
	if run, ok := w.run(id); ok {
		def, err := flow.Decode(run.Def)
		if zones = def.Zones(); err != nil || !q.Zoned.Fits(zones) {
			return def, nil, runs.ErrKeyReused
		}
	} else if zones, err = w.o.Zones(id, *q.Zoned); err != nil {
		return def, nil, err
	}
	def, err = q.Zoned.Workflow(zones)
	return def, zones, err
}

// checkZones refuses a definition with a job none of whose zones has a host, as it would
// wait until one does, and one with several zones of which some have no host, as their
// names are probably misspelt. A zone that an expression yields is not known yet.
func checkZones(def flow.Def, known func(zone string) bool) error {
	for _, s := range def.Steps {
		for _, spec := range s.Jobs() {
			for _, z := range spec.Zones {
				if strings.Contains(z, "${") || known(z) {
					continue
				}
				return api.Errorf(api.CodeInvalidJob, "step %s: no host is in zone %s", s.Name, clip(fmt.Sprintf("%q", z), 80)).
					WithHint("`skein zones` lists them. Or let it wait for a worker: --wait-for-worker, wait_for_worker")
			}
		}
	}
	return nil
}
