package postgres

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
)

// ends is how jobs ended, by the log.
type ends interface {
	// known lists all jobs that the log has, and of them those that have ended.
	known() (all, over []job.ID)
	// of is how one ended; ok is false if it has not, or is forgotten.
	of(ids []job.ID) []ended
	// changed is closed when there may be another.
	changed() <-chan struct{}
	// about yields the events about a job that count.
	about(ctx context.Context, id job.ID) iter.Seq2[event.Event, error]
}

// logEnds are those of a log.
type logEnds struct{ log Log }

func (l logEnds) changed() <-chan struct{} { return l.log.Changed() }

func (l logEnds) about(ctx context.Context, id job.ID) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for e, err := range l.log.About(ctx, id) {
			void := false
			if err == nil {
				l.log.View(func(st *state.State) { void = st.Void(e) })
			}
			if !void && !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func (l logEnds) known() (all, over []job.ID) {
	var jobs []state.Job
	l.log.View(func(st *state.State) { jobs = st.Jobs() })
	for _, j := range jobs {
		all = append(all, j.ID)
		if j.State.Final() {
			over = append(over, j.ID)
		}
	}
	return all, over
}

func (l logEnds) of(ids []job.ID) (list []ended) {
	l.log.View(func(st *state.State) {
		for _, id := range ids {
			if e, ok := endOf(st, id); ok {
				list = append(list, e)
			}
		}
	})
	return list
}

// endOf is how a job ended.
func endOf(st *state.State, id job.ID) (e ended, ok bool) {
	j, ok := st.Job(id)
	if !ok || !j.State.Final() {
		return e, false
	}
	r, ok := st.Result(id)
	if !ok {
		return e, false
	}
	spec := j.Spec
	key := spec.Key
	spec.Key = ""
	e = ended{
		job: id, owner: j.Owner, key: key, of: spec, state: j.State, accepted: j.Counts.Accepted, why: j.Reason, began: j.Submitted.Time(), done: j.Finished.Time(),
	}
	var err error
	if e.spec, err = json.Marshal(spec); err != nil {
		return e, false
	}
	if e.result, err = json.Marshal(r); err != nil {
		return e, false
	}
	return e, true
}
