package backend

import (
	"context"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/convert"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/scheduler"
)

// waitingTime bounds the question to the holder why jobs wait: what the log says of
// it has to do then.
const waitingTime = 2 * time.Second

// waitingHere lists the jobs that the scheduler of this host knows no worker for.
func (b *jobs) waitingHere(_ context.Context, _ forward.Asker, req forward.WaitingJobs) (forward.JobsWaiting, error) {
	return listWaiting(b.sched.Waiting(), req.Job), nil
}

// listWaiting lists a job, or with no id all, as far as they fit in a message between
// hosts.
func listWaiting(all []scheduler.Waiting, id job.ID) forward.JobsWaiting {
	out := forward.JobsWaiting{Jobs: []forward.JobWaiting{}}
	for _, w := range all {
		switch {
		case id != "" && w.Job != id:
		case len(out.Jobs) == forward.MaxWaiting:
			out.Omitted++
		default:
			out.Jobs = append(out.Jobs, forward.JobWaiting{Job: w.Job, Waits: w.Why.String(), Why: convert.Waiting(w.Why, w.Since)})
		}
	}
	return out
}

// waiting asks the holder why a job waits, or with no id which jobs do. It is empty
// if the holder does not answer.
func (b *jobs) waiting(ctx context.Context, id job.ID) (list forward.JobsWaiting, ok bool) {
	if b.view().Lease.Holder == "" {
		return forward.JobsWaiting{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, waitingTime)
	defer cancel()
	list, err := forward.AskHolderOnce(ctx, b.remote, forward.Waiting, "", forward.WaitingJobs{Job: id})
	if err != nil {
		b.logger.Debug().Err(err).Msg("holder did not say which jobs wait")
	}
	return list, err == nil
}

// mayWait reports that nothing of a job runs though there is something to do, so that
// it may be for want of a worker.
func mayWait(j api.Job) bool {
	return !j.State.Final() && j.State != job.Cancelling && j.Chunks.Assigned == 0 && j.Chunks.Pending > 0
}

// addWaiting says in j why it waits.
func addWaiting(j *api.Job, list forward.JobsWaiting) {
	for _, w := range list.Jobs {
		if w.Job == j.ID && mayWait(*j) {
			j.Waits, j.Waiting = w.Waits, &w.Why
		}
	}
}
