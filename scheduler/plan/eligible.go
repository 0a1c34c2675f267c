package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// firstContact is how long a host that was just learned of, lost or heard again
// may take to open its stream before it counts as one without a worker.
const firstContact = 10 * time.Second

// What keeps a worker from a job, in the order in which it is looked for.
const (
	lacksExecutor   = "executor"
	lacksZone       = "zone"
	lacksPermission = "permission"
	lacksStream     = "unreachable"
	lacksDrain      = "draining"
	lacksReadiness  = "not ready"
)

// lacks says what keeps w from jobs of c, or "".
func (p *Plan) lacks(c *class, w *worker) string {
	switch {
	case !slices.Contains(w.executors, c.executor):
		return lacksExecutor
	case len(c.zoneSet) > 0 && !slices.Contains(c.zoneSet, w.zone):
		return lacksZone
	case !p.permits(c, w):
		return lacksPermission
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
func (p *Plan) eligible(c *class) string {
	workers, fit := 0, 0
	count := make(map[string]int)
	var why []string
	for _, w := range p.workers {
		if w == nil || !w.known() {
			continue
		}
		workers++
		what := p.lacks(c, w)
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

// known reports that w is a worker, as far as is known: it said what it runs, and
// has not gone for good.
func (w *worker) known() bool {
	return len(w.executors) > 0 && w.health != cluster.Dead && w.health != cluster.Left
}

// Unserved says why no worker can run a job, whoever owns it: no host is in its
// zones, or none has its executor. It is empty while that cannot be told,
// because no worker was heard yet or one may still come.
func (p *Plan) Unserved(spec job.Spec, now time.Duration) string {
	heard, coming, inZone, hasExecutor := false, false, len(spec.Zones) == 0, false
	for _, w := range p.workers {
		if w == nil || w.health == cluster.Left {
			continue
		}
		// One that was lost a moment ago may come back with other executors.
		if !w.connected && (now-w.since < firstContact || now-w.revived < firstContact) {
			coming = true
		}
		if w.health == cluster.Dead {
			continue
		}
		heard = heard || w.known()
		inZone = inZone || slices.Contains(spec.Zones, w.zone)
		hasExecutor = hasExecutor || slices.Contains(w.executors, spec.Needs())
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
