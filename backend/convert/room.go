package convert

import (
	"fmt"

	"github.com/skein-project/skein/eventlog/disk"
)

// Room says in words how much room the event log has.
func Room(d disk.Report) string {
	free := fmt.Sprintf("%d MiB free", d.Free>>20)
	if d.Limit > 0 {
		free += fmt.Sprintf(", %d of %d MiB used", d.Size>>20, d.Limit>>20)
	}
	switch d.State {
	case disk.Low:
		return "little room, " + free
	case disk.Full:
		return "no room for new jobs, " + free
	case disk.Out:
		return "no room at all, " + free
	}
	return free
}
