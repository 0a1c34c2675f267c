package pace

import (
	"slices"
	"time"
)

// Worker is how fast one worker is, and at what it fails. The zero value is one
// that was never measured.
type Worker struct {
	// Index is the caller's number of the worker.
	Index int32

	rates []rate  // the latest new kind first
	speed float64 // as compared with others at the same work; 0: not known
}

// rate is what is known of one worker at one kind of work.
type rate struct {
	kind     *Kind
	rate     float64 // iterations per second of one slot; 0: not measured
	bad      int     // failures since the last success
	excludes int     // times that it was left out since
	until    time.Duration
}

// at returns what is known of w at k.
func (w *Worker) at(k *Kind) *rate {
	for i := range w.rates {
		if w.rates[i].kind == k {
			return &w.rates[i]
		}
	}
	if len(w.rates) >= maxRates {
		w.rates[len(w.rates)-1].kind.readmit(w)
		w.rates = w.rates[:len(w.rates)-1]
	}
	w.rates = slices.Insert(w.rates, 0, rate{kind: k})
	return &w.rates[0]
}

// Forget drops what is known of w at k.
func (w *Worker) Forget(k *Kind) {
	w.rates = slices.DeleteFunc(w.rates, func(o rate) bool { return o.kind == k })
}

// Latest is the iterations per second of one slot at the kind of work that w
// began last; 0: not measured.
func (w *Worker) Latest() float64 {
	if len(w.rates) == 0 {
		return 0
	}
	return w.rates[0].rate
}

// Estimate is the time that one slot of w needs for n iterations at k, where a
// chunk has that many: by its own rate, else by that of others at its speed.
func (w *Worker) Estimate(k *Kind, n, chunk uint64) time.Duration {
	for i := range w.rates {
		if w.rates[i].kind == k && w.rates[i].rate > 0 {
			return secondsOf(float64(n) / w.rates[i].rate)
		}
	}
	d := k.Typical(n, chunk)
	if w.speed > 0 {
		return secondsOf(d.Seconds() / w.speed)
	}
	return d
}

// Measure takes in that w did n iterations at k in that time.
func (w *Worker) Measure(k *Kind, n uint64, seconds float64) {
	w.MeasureApart(k, n, seconds)
	blend(&k.rate, float64(n)/seconds)
}

// MeasureApart is Measure where that says nothing of others.
func (w *Worker) MeasureApart(k *Kind, n uint64, seconds float64) {
	rate := float64(n) / seconds
	own := w.at(k)
	if k.rate > 0 {
		blend(&w.speed, min(max(rate/k.rate, 1e-3), 1e3))
	}
	blend(&own.rate, rate)
}

// Succeed takes in that an attempt of w at k had a result: it is no longer left out.
func (w *Worker) Succeed(k *Kind) {
	if own := w.at(k); own.bad > 0 || own.excludes > 0 {
		own.bad, own.excludes, own.until = 0, 0, 0
		k.readmit(w)
	}
}

func blend(old *float64, v float64) {
	if *old == 0 {
		*old = v
		return
	}
	*old += smooth * (v - *old)
}

// Fail takes in that w failed at k. A worker at which several attempts in a row
// failed is left out for a time that doubles, which is returned; else 0.
func (w *Worker) Fail(k *Kind, now time.Duration) time.Duration {
	own := w.at(k)
	own.bad++
	if own.bad < BadInARow {
		return 0
	}
	d := min(lastExclude, firstExclude<<min(own.excludes, 10))
	own.bad, own.excludes, own.until = BadInARow-1, own.excludes+1, now+d
	if !slices.Contains(k.excluded, w) {
		k.excluded = append(k.excluded, w)
	}
	return d
}

// LeftOut reports that w is left out of k.
func (w *Worker) LeftOut(k *Kind, now time.Duration) bool {
	if len(k.excluded) == 0 {
		return false
	}
	for i := range w.rates {
		if w.rates[i].kind == k {
			return now < w.rates[i].until
		}
	}
	return false
}
