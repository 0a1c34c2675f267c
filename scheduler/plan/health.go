package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/skein-project/skein/scheduler/plan/vital"
)

func (w *worker) verdict() vital.Verdict { return vital.Judge(w.Healthy(), w.ready(), w.signal) }

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
	signal    vital.Signal
	output    time.Duration // when something came from it last, or it began to have work
	quiet     time.Duration // until then some of its work said that it is silent
	evictions int           // since its last result
}

// judge is how w gets on: how long ago its last output is, by how long one
// chunk takes it. What was never measured is judged by its deadlines only.
func (w *worker) judge(stuck, now time.Duration) vital.Signal {
	if len(w.tries) == 0 {
		return vital.Idle
	}
	longest := time.Duration(0)
	for _, t := range w.tries {
		if !t.job.kind.Measured() {
			return vital.Normal
		}
		longest = max(longest, t.load)
	}
	expected, silent := max(minPatience, longest), now-max(w.output, w.quiet)
	switch {
	case silent > max(stuck, 6*expected):
		return vital.Stuck
	case silent > 4*expected:
		return vital.Degraded
	case silent > 2*expected:
		return vital.Slow
	}
	return vital.Normal
}

// watch looks at how all workers get on, and which of them are to be evicted.
type watch struct {
	stuck   time.Duration // as Config.Stuck
	lookAt  time.Duration // not before
	evictAt time.Duration // not before, while most seem to be stuck
}

// look has a look at the workers and returns the stuck ones that are to be
// evicted now. When most seem to be stuck at once, the fault may be elsewhere:
// then they go one by one, the one that is silent longest first. That is about members:
// strangers go at once.
func (h *watch) look(workers []*worker, now time.Duration) []*worker {
	if now < h.lookAt {
		return nil
	}
	h.lookAt = now + healthEvery
	var stuck, strange []*worker
	taking := 0
	for _, w := range workers {
		if w == nil || !w.Healthy() {
			continue
		}
		if !w.Stranger {
			taking++
		}
		if w.signal == vital.Stuck { // evicted, its timer gives it another chance
			continue
		}
		if s := w.judge(h.stuck, now); s == vital.Stuck && w.Stranger {
			strange = append(strange, w)
		} else if s == vital.Stuck {
			stuck = append(stuck, w)
		} else {
			w.signal = s
		}
	}
	slices.SortFunc(stuck, func(a, b *worker) int { return cmp.Or(cmp.Compare(a.output, b.output), byName(a, b)) })
	if taking >= 3 && 2*len(stuck) > taking {
		if now < h.evictAt {
			return strange
		}
		stuck = stuck[:1]
	}
	if len(stuck) > 0 {
		h.evictAt = now + evictEvery
	}
	return append(strange, stuck...)
}
