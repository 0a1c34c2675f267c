package daemon

import (
	"fmt"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog"
)

// logCheck is the self-check of the event log: a host whose log cannot be
// written does not hold the lease.
const logCheck = "event log"

// checkLog tells the lease whether this host's log can be written. It is called
// at once when it cannot, and now and then, because it recovers by itself.
func (n *node) checkLog() {
	if n.coord == nil {
		return // not made yet; the next call is soon enough
	}
	reason := ""
	if err := n.events.Err(); err != nil {
		reason = err.Error()
	} else if d := n.events.Disk(); d.State == eventlog.DiskOut {
		reason = roomOf(d)
	}
	n.coord.SelfCheck(logCheck, reason)
}

// onDisk hears that there is another amount of room for the log.
func (n *node) onDisk(d eventlog.Disk) {
	n.note(cluster.KindHostDisk, cluster.HostDisk{State: string(d.State), Free: d.Free, Log: d.Size})
	if n.events != nil {
		n.checkLog()
	}
}

// roomOf says in words what room there is.
func roomOf(d eventlog.Disk) string {
	free := fmt.Sprintf("%d MiB free", d.Free>>20)
	if d.Limit > 0 {
		free += fmt.Sprintf(", %d of %d MiB used", d.Size>>20, d.Limit>>20)
	}
	switch d.State {
	case eventlog.DiskLow:
		return "little room, " + free
	case eventlog.DiskFull:
		return "no room for new jobs, " + free
	case eventlog.DiskOut:
		return "no room at all, " + free
	}
	return free
}
