package plan

import (
	"time"

	"github.com/skein-project/skein/cluster/job"
)

// try is one open attempt. It stands in its chunk, in its job and in its
// worker.
type try struct {
	job        *openJob
	chunk      int
	attempt    int
	worker     *worker
	iterations uint64
	load       time.Duration // estimated time of it in one slot
	started    time.Duration
	deadline
	progress
	presence
	inJob    int  // index in job.tries
	inWorker int  // index in worker.tries
	runs     bool // the worker said that it began
	copied   bool // it copies another attempt, near the end of the job
	gone     bool // ended
}

func (t *try) ref() job.Attempt {
	return job.Attempt{Job: t.job.id, Chunk: t.chunk, Number: t.attempt, Worker: t.worker.node}
}

// deadline is when an attempt ends without a result.
type deadline struct {
	timer    timer
	limit    time.Duration // counted from the assignment
	granted  int           // extensions since progress was made
	extended time.Duration // by which it was put off in all
}

// extension is how much longer the attempt may take when its deadline comes: half
// of what is left of most, once for each progress; 0: no longer.
func (d *deadline) extension(most time.Duration) time.Duration {
	if left := (most - d.extended) / 2; left >= minExtension && d.granted == 0 {
		return left
	}
	return 0
}

// extend puts the deadline off; the caller sets the timer.
func (d *deadline) extend(by time.Duration) {
	d.extended += by
	d.granted++
}

// total is the time that the attempt had in all.
func (d *deadline) total() time.Duration { return d.limit + d.extended }

// progress is how far an attempt is, as its worker says.
type progress struct {
	done  uint64        // iterations
	moved time.Duration // when done rose last
}

// still reports that the attempt got on once, and has not for that long.
func (p *progress) still(limit, now time.Duration) bool { return p.done > 0 && now-p.moved >= limit }

// report takes in that done iterations are done, and says whether that is more
// than before.
func (t *try) report(done uint64, now time.Duration) bool {
	if done <= t.done {
		return false
	}
	t.done, t.moved, t.granted = min(done, t.iterations), now, 0
	return true
}

// presence is whether the worker has the attempt.
type presence struct {
	misses int  // times in a row that it was not in the worker's list
	lost   bool // the worker does not have it
}

// missed takes in that the attempt is not in the worker's list, and says whether
// it counts as lost from now on: one list may cross an assignment.
func (p *presence) missed() bool {
	if p.misses++; p.misses < 2 || p.lost {
		return false
	}
	p.lost = true
	return true
}
