package waits

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/convert"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/present"
	"github.com/skein-project/skein/scheduler"
	"github.com/skein-project/skein/scheduler/plan/eligible"
)

// askTime bounds the question to the holder why jobs wait: what the log says of it has
// to do then.
const askTime = 2 * time.Second

// longWait is how long a job that workers may run waits before that is trouble.
const longWait = 5 * time.Minute

// Scheduler is the one of this host.
type Scheduler interface {
	Waiting() []scheduler.Waiting
	Explain(ctx context.Context, id job.ID) (scheduler.Waiting, error)
}

// Options of Waits. All must be set.
type Options struct {
	// Holder is who holds the lease; empty: nobody, as far as this host knows.
	Holder    func() cluster.NodeID
	Scheduler Scheduler
	// Job tells what this host's log says of a job.
	Job    func(ctx context.Context, id job.ID) (api.Job, error)
	Remote *forward.Router
	Logger zerolog.Logger
}

// Waits tells why jobs wait. Its methods may be called from any goroutine.
type Waits struct{ o Options }

// New returns Waits.
func New(o Options) *Waits { return &Waits{o: o} }

// Serve lists the jobs that wait by the scheduler of this host.
func (w *Waits) Serve(_ context.Context, _ forward.Asker, req forward.WaitingJobs) (forward.JobsWaiting, error) {
	return list(w.o.Scheduler.Waiting(), req.Job), nil
}

// list lists a job, or with no id all, as far as they fit in a message between hosts.
func list(all []scheduler.Waiting, id job.ID) forward.JobsWaiting {
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

// ask asks the holder why a job waits, or with no id which jobs do. It is empty if the
// holder does not answer.
func (w *Waits) ask(ctx context.Context, id job.ID) (list forward.JobsWaiting, ok bool) {
	if w.o.Holder() == "" {
		return forward.JobsWaiting{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	list, err := forward.AskHolderOnce(ctx, w.o.Remote, forward.Waiting, "", forward.WaitingJobs{Job: id})
	if err != nil {
		w.o.Logger.Debug().Err(err).Msg("holder did not say which jobs wait")
	}
	return list, err == nil
}

// Here says in j why it waits, as far as this host's scheduler knows.
func (w *Waits) Here(j *api.Job) {
	if may(*j) {
		add(j, list(w.o.Scheduler.Waiting(), j.ID))
	}
}

// There says in j why it waits, as the holder knows.
func (w *Waits) There(ctx context.Context, j *api.Job) {
	if j.Waiting != nil || !may(*j) {
		return
	}
	if list, ok := w.ask(ctx, j.ID); ok {
		add(j, list)
	}
}

// may reports that nothing of a job runs though something is to be done.
func may(j api.Job) bool {
	return !j.State.Final() && j.State != job.Cancelling && j.Chunks.Assigned == 0 && (j.Chunks.Pending > 0 || j.Waits != "")
}

func add(j *api.Job, list forward.JobsWaiting) {
	for _, w := range list.Jobs {
		if w.Job == j.ID {
			j.Waits, j.Waiting = present.Waiting(w.Why), &w.Why
		}
	}
}

// Troubled lists the jobs that wait for what an operator should know: no worker may
// run them, or they wait for long, and not for their turn. It is not ok if the holder
// does not say.
func (w *Waits) Troubled(ctx context.Context) (out []forward.JobWaiting, ok bool) {
	list, ok := w.ask(ctx, "")
	for _, x := range list.Jobs {
		if troubled(x.Why, time.Now()) {
			out = append(out, x)
		}
	}
	return out, ok
}

func troubled(w api.Waiting, now time.Time) bool {
	if len(w.Reasons) == 0 {
		return false
	}
	none := w.Eligible == 0 && w.Reasons[0].Workers > 0
	return none || now.Sub(w.Since) >= longWait && w.Reasons[0].Reason != string(eligible.Busy) && w.Reasons[0].Reason != string(eligible.After)
}
