package pace

import (
	"slices"
	"time"

	"github.com/skein-project/skein/cluster/job"
)

// minMeasured is for how long an attempt must have got on to say how fast it is, and
// silentMeasured for how long it may say nothing new.
const (
	minMeasured    = time.Second
	silentMeasured = 10 * time.Second
)

// Progress is how far an attempt is, as its worker says.
type Progress struct {
	Done  uint64        // iterations
	Moved time.Duration // when Done rose last

	first uint64        // what its worker said first
	since time.Duration // and when
}

// Begin takes in what the worker says first.
func (p *Progress) Begin(done uint64, now time.Duration) { p.first, p.since = done, now }

// Rise takes in that done iterations of all are done, and says whether that is more
// than before.
func (p *Progress) Rise(done, all uint64, now time.Duration) bool {
	if done <= p.Done {
		return false
	}
	p.Done, p.Moved = min(done, all), now
	return true
}

// Still reports that the attempt got on once, and has not for that long.
func (p *Progress) Still(limit, now time.Duration) bool { return p.Done > 0 && now-p.Moved >= limit }

// Rate is the iterations per second since the worker said first how far it is; 0:
// not known yet.
func (p *Progress) Rate(now time.Duration) float64 {
	end := p.Moved
	if now-end > silentMeasured {
		end = now
	}
	if p.since == 0 || p.Done <= p.first || end-p.since < minMeasured {
		return 0
	}
	return float64(p.Done-p.first) / (end - p.since).Seconds()
}

// Running is the attempts at the chunks of one job that a worker runs, without copies.
type Running struct {
	Job      job.ID
	Attempts int
	Measured int     // of them, those of which Rate is
	Done     uint64  // iterations
	Rate     float64 // iterations per second
}

// Run adds an attempt to what runs of its job.
func Run(list []Running, id job.ID, p *Progress, now time.Duration) []Running {
	i := slices.IndexFunc(list, func(r Running) bool { return r.Job == id })
	if i < 0 {
		i, list = len(list), append(list, Running{Job: id})
	}
	r := &list[i]
	r.Attempts++
	r.Done += p.Done
	if rate := p.Rate(now); rate > 0 {
		r.Measured++
		r.Rate += rate
	}
	return list
}

// Left is how fast all that runs is, and the time that n iterations take of which it
// has done its part; 0: not known.
func Left(list []Running, n uint64) (rate float64, d time.Duration) {
	left := float64(n)
	for _, r := range list {
		rate += r.Rate
		left -= float64(r.Done)
	}
	if rate == 0 {
		return 0, 0
	}
	return rate, secondsOf(left / rate)
}
