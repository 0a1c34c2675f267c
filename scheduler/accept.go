package scheduler

import (
	"cmp"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
)

// HostRuns reports that host, which accepts that, runs the jobs of owner, by a log:
// whose the host is and who is in groups.
func HostRuns(log Log, host cluster.NodeID, a job.Acceptance, owner string) (ok bool) {
	log.View(func(s *state.State) {
		whose := s.Owner(host)
		ok = a.Settle(whose).Allows(cmp.Or(whose, cluster.NodePrincipal(host)), owner, func(group, who string) bool {
			g, _ := s.Group(group)
			_, in := slices.BinarySearch(g.Members, who)
			return in
		})
	})
	return ok
}
