package plan

import (
	"cmp"
	"slices"
	"time"
)

// Signal says how a worker gets on with what it has, the third of the signals
// that decide what it gets: live, ready, progressing.
type Signal uint8

// Values of Signal.
const (
	Idle     Signal = iota // it has nothing to do
	Normal                 // results come as fast as its rate lets expect
	Slow                   // they take more than twice as long
	Degraded               // they take more than four times as long
	Stuck                  // it has work, and nothing comes
)

// String implements fmt.Stringer.
func (s Signal) String() string {
	return [...]string{"idle", "normal", "slow", "degraded", "stuck"}[s]
}

// Verdict is what the three signals mean for a worker.
type Verdict string

// Values of Verdict.
const (
	VerdictRoute       Verdict = "route"       // it gets work
	VerdictInvestigate Verdict = "investigate" // it gets work, later than others
	VerdictDrain       Verdict = "drain"       // it finishes what it has
	VerdictEvict       Verdict = "evict"       // what it has runs elsewhere
)

// verdicts are the decisions by live, ready and progressing.
func verdict(live, ready bool, s Signal) Verdict {
	switch {
	case !live, s == Stuck:
		return VerdictEvict
	case !ready:
		return VerdictDrain
	case s == Slow, s == Degraded:
		return VerdictInvestigate
	}
	return VerdictRoute
}

func (w *worker) verdict() Verdict { return verdict(w.healthy(), w.ready(), w.signal) }

// Evictions.
const (
	minPatience = 10 * time.Second // what is expected earlier is not waited for less
	evictEvery  = 30 * time.Second
	firstEvict  = 30 * time.Second
	lastEvict   = 10 * time.Minute
	healthEvery = time.Second
)

// vitals is how a worker gets on with what it has.
type vitals struct {
	signal    Signal
	output    time.Duration // when something came from it last, or it began to have work
	evictions int           // since its last result
}

// judge is how w gets on: how long ago its last output is, by how long one
// chunk takes it. What was never measured is judged by its deadlines only.
func (w *worker) judge(stuck, now time.Duration) Signal {
	if len(w.tries) == 0 {
		return Idle
	}
	longest := time.Duration(0)
	for _, t := range w.tries {
		if !t.job.kind.Measured() {
			return Normal
		}
		longest = max(longest, t.load)
	}
	expected, silent := max(minPatience, longest), now-w.output
	switch {
	case silent > max(stuck, 6*expected):
		return Stuck
	case silent > 4*expected:
		return Degraded
	case silent > 2*expected:
		return Slow
	}
	return Normal
}

// watch looks at how all workers get on, and which of them are to be evicted.
type watch struct {
	stuck   time.Duration // as Config.Stuck
	lookAt  time.Duration // not before
	evictAt time.Duration // not before, while most seem to be stuck
}

// look has a look at the workers and returns the stuck ones that are to be
// evicted now. When most seem to be stuck at once, the fault may be elsewhere:
// then they go one by one, the one that is silent longest first.
func (h *watch) look(workers []*worker, now time.Duration) []*worker {
	if now < h.lookAt {
		return nil
	}
	h.lookAt = now + healthEvery
	var stuck []*worker
	taking := 0
	for _, w := range workers {
		if w == nil || !w.healthy() {
			continue
		}
		taking++
		if w.signal == Stuck { // evicted, its timer gives it another chance
			continue
		}
		if s := w.judge(h.stuck, now); s == Stuck {
			stuck = append(stuck, w)
		} else {
			w.signal = s
		}
	}
	slices.SortFunc(stuck, func(a, b *worker) int { return cmp.Or(cmp.Compare(a.output, b.output), byName(a, b)) })
	if taking >= 3 && 2*len(stuck) > taking {
		if now < h.evictAt {
			return nil
		}
		stuck = stuck[:1]
	}
	if len(stuck) > 0 {
		h.evictAt = now + evictEvery
	}
	return stuck
}
