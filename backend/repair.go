package backend

import (
	"fmt"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/audit"
)

// repairReasons says what a repair of the event log is still fetching.
func repairReasons(log interface {
	Repairing() []audit.Repairing
	Head(event.SourceID) event.Head
},
) (out []string) {
	for _, r := range log.Repairing() {
		if seq := log.Head(r.Source).Seq; seq < r.Known {
			out = append(out, fmt.Sprintf("event log: %s is fetched again, %d of %d events", r.Source, seq, r.Known))
		}
	}
	return out
}
