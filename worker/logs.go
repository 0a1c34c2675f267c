package worker

import (
	"sync"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/worker/executor"
)

// maxLogJobs bounds the jobs whose stored logs are counted.
const maxLogJobs = 4096

// keptLogs counts the logs of failures that were stored to outlive this host, by job: a
// job that fails everywhere is no reason to store the same again and again. The zero
// value is ready.
type keptLogs struct {
	mu    sync.Mutex
	count map[job.ID]int
}

// another takes one of the places of a job.
func (k *keptLogs) another(id job.ID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.count == nil || len(k.count) >= maxLogJobs && k.count[id] == 0 {
		k.count = make(map[job.ID]int)
	}
	k.count[id]++
	return k.count[id] <= job.MaxLogs
}

// hear has the words of an attempt kept as its job wishes. The caller calls keep when
// the attempt has ended, and says whether it was cancelled; what it returns names what
// was stored to outlive this host.
func (l *loop) hear(t *executor.Task) (keep func(err error, cancelled bool) cluster.Hash) {
	if l.opts.Words == nil || t.Spec.Logs == job.LogsNone {
		return func(error, bool) cluster.Hash { return cluster.Hash{} }
	}
	said := l.opts.Words.Begin(t.Attempt)
	t.Words = said
	return func(err error, cancelled bool) (log cluster.Hash) {
		failed := ""
		if err != nil {
			failed = job.ReasonOf(err)
		}
		l.opts.Words.End(t.Attempt, !cancelled && t.Spec.Logs.Keeps(err != nil), failed)
		short := said.Said().Short()
		if err == nil || cancelled || l.opts.KeepLog == nil || len(short) == 0 || executor.ClassOf(err) != job.FailedWork || !l.logs.another(t.Attempt.Job) {
			return log
		}
		log, err = l.opts.KeepLog(short)
		if err != nil {
			l.log.Warn().Err(err).Str("job", string(t.Attempt.Job)).Msg("what a failed attempt said is kept on this host only")
		}
		return log
	}
}
