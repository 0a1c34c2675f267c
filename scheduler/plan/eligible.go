package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/eligible"
)

// firstContact is how long a host that was just learned of, lost or heard again
// may take to open its stream before it counts as one without a worker.
const firstContact = 10 * time.Second

// What keeps a worker that may run a job from it for now, in the order in which
// it is looked for.
const (
	lacksStream    = "unreachable"
	lacksDrain     = "draining"
	lacksReadiness = "not ready"
)

// lacks says what keeps w from jobs of c, or "".
func (r *roster) lacks(c *eligible.Class, w *worker) string {
	if what := r.classes.Lacks(c, &w.host); what != "" {
		return what
	}
	switch {
	case !w.healthy():
		return lacksStream
	case w.draining:
		return lacksDrain
	case !w.serves():
		return lacksReadiness
	}
	return ""
}

// eligible says how many workers may run jobs of c, and what keeps the others
// from it, the most frequent first: "0 of 3 workers eligible: permission 2,
// executor 1".
func (r *roster) eligible(c *eligible.Class) string {
	workers, fit := 0, 0
	count := make(map[string]int)
	var why []string
	for _, w := range r.workers {
		if w == nil || !w.known() {
			continue
		}
		workers++
		what := r.lacks(c, w)
		if what == "" {
			fit++
		} else if count[what]++; count[what] == 1 {
			why = append(why, what)
		}
	}
	slices.SortFunc(why, func(a, b string) int { return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b)) })
	for i, what := range why {
		why[i] = fmt.Sprintf("%s %d", what, count[what])
	}
	out := fmt.Sprintf("%d of %d workers eligible", fit, workers)
	if len(why) > 0 {
		out += ": " + strings.Join(why, ", ")
	}
	return out
}

// unserved says why no worker can run a job, whoever owns it, or "".
func (r *roster) unserved(spec job.Spec, now time.Duration) string {
	heard, coming, inZone, hasExecutor := false, false, len(spec.Zones) == 0, false
	for _, w := range r.workers {
		if w == nil || w.health == cluster.Left {
			continue
		}
		// One that was lost a moment ago may come back with other executors.
		coming = coming || w.coming(now)
		if w.health == cluster.Dead {
			continue
		}
		heard = heard || w.known()
		inZone = inZone || slices.Contains(spec.Zones, w.host.Zone)
		hasExecutor = hasExecutor || slices.Contains(w.host.Executors, spec.Needs())
	}
	switch {
	case !heard || coming:
		return ""
	case !inZone:
		return "no host is in zone " + strings.Join(spec.Zones, " or ")
	case !hasExecutor:
		return "no worker has executor " + spec.Needs()
	}
	return ""
}
