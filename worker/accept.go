package worker

import (
	"slices"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/stream"
)

// wishes is whose jobs are run here.
type wishes struct {
	accept job.Acceptance  // as it was last told
	may    map[string]bool // owners whose jobs are, for a moment
}

// heed looks whether this host's owner wants other jobs to run here than before.
// The holder then learns it on a new stream; what runs goes on, and what waits and
// is not wanted any more is given back.
func (l *loop) heed() {
	if now := l.opts.Accept(); !now.Equal(l.accept) {
		l.log.Info().Str("old", l.accept.String()).Str("new", now.String()).Msg("whose jobs this host runs changed")
		l.accept = now
		l.closeSession("whose jobs this host runs changed")
	}
	clear(l.may)
	l.queue = slices.DeleteFunc(l.queue, func(t queuedTask) bool {
		ok := l.runs(t.owner)
		if !ok {
			l.refuse(t.Attempt, t.owner)
		}
		return !ok
	})
}

// runs reports that this host runs the jobs of owner. It asks again what the holder
// decided: a holder can be wrong, or not know what a host accepts.
func (l *loop) runs(owner string) bool {
	if l.accept.Accept == job.AcceptPublic || l.may[owner] {
		return true
	}
	ok := l.opts.Runs(l.accept, owner)
	if ok && len(l.may) < maxMay {
		l.may[owner] = true
	}
	return ok
}

// maxMay bounds the owners that are remembered.
const maxMay = 1024

func (l *loop) refuse(ref job.Attempt, owner string) {
	l.m.refused.WithLabelValues("not_accepted").Inc()
	l.log.Warn().Str("job", string(ref.Job)).Str("owner", owner).Str("accept", l.accept.String()).Msg("chunk given back: this host does not run jobs of its owner")
	why := "the host does not run jobs of " + owner
	if owner == "" {
		why = "the host does not run everybody's jobs, and the holder does not say whose this is"
	}
	l.giveBack(ref, why)
}

func (l *loop) giveBack(ref job.Attempt, why string) {
	l.m.chunks.WithLabelValues("returned").Inc()
	l.keep(stream.Result{Attempt: ref, Error: why, Class: job.HandedBack})
}
