package backend

import (
	"fmt"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/audit"
)

// repairReasons says what a repair of the event log is still fetching.
func repairReasons(log interface {
	Repairing() []audit.Repairing
	Missing(r audit.Repairing) bool
	Head(src event.SourceID) event.Head
},
) (out []string) {
	for _, r := range log.Repairing() {
		switch {
		case !log.Missing(r):
		case r.State:
			out = append(out, "event log: the state is fetched again, as a snapshot of another host")
		default:
			out = append(out, fmt.Sprintf("event log: %s is fetched again, %d of %d events", r.Source, log.Head(r.Source).Seq, r.Known))
		}
	}
	return out
}
