package status

import (
	"context"
	"net/http"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/status/stream"
)

// Pace of followers.
const (
	watchMin  = 200 * time.Millisecond // between two snapshots of a job
	watchMax  = time.Second            // rate and time left change by themselves
	eventsMin = 50 * time.Millisecond  // between two looks at the log
	keepalive = 5 * time.Second        // an empty line, a third of what clients bear
)

// watchJob sends snapshots of a job until it is final.
func (hs *handlers) watchJob(w http.ResponseWriter, r *http.Request) error {
	id, err := hs.jobID(r)
	if err != nil {
		return err
	}
	if _, err := hs.backend.Job(r.Context(), id); err != nil {
		return err
	}
	return hs.followers.Serve(hs.places, w, r, func(ctx context.Context, out *stream.Writer) error {
		watch := hs.backend.WatchJob(id)
		defer watch.Close()
		for {
			changed, also := hs.backend.Changed(), watch.Changed() // before the look, so that nothing is missed
			job, err := watch.Job(ctx)
			if err != nil {
				return err
			}
			if err := out.Line(api.Complete(job, hs.backend.Header())); err != nil || job.State.Final() {
				return err
			}
			if _, err := hs.followers.Wait(ctx, changed, also, watchMin, watchMax); err != nil {
				return err
			}
		}
	})
}
