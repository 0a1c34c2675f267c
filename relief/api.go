package relief

import (
	"fmt"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/overload"
)

// API is how loaded this host is, as people are told it.
func (r *Relief) API() api.Pressure {
	v := r.View()
	share := func(percent float64) *float64 {
		if percent < 0 {
			return nil
		}
		return new(percent / 100)
	}
	span := func(d time.Duration) float64 { return d.Seconds() }
	by := v.By
	if v.Level == overload.Normal {
		by = "" // which of them says most changes all the time
	}
	return api.Pressure{
		Level: v.Level.String(), Score: v.Score, Signal: string(by), CPU: share(v.CPU), Memory: share(v.Memory), IO: share(v.IO),
		MemoryLeft: share(v.MemoryLeft), DiskLeft: share(v.DiskLeft), DelaySeconds: span(v.Work), ControlDelaySeconds: span(v.Control),
		GoroutineSeconds: span(v.Goroutines), SyncSeconds: span(v.Syncs),
	}
}

// Reason says why a host that is overloaded is degraded; empty: it is not.
func (r *Relief) Reason() string {
	v := r.View()
	if v.Level < overload.High {
		return ""
	}
	return fmt.Sprintf("overload: %s by %s", v.Level, v.By)
}
