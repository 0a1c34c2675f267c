package scheduler

import "time"

// showShare is the part of the time that it may take to show all workers.
const showShare = 10

// view decides when all workers are shown between two ticks. With very many workers that
// takes long, so they are not shown again each time that one of them says something.
type view struct {
	at     time.Time // not before
	hidden bool      // something is to be shown then
}

// due reports that it is time to show them.
func (v *view) due(now time.Time) bool {
	v.hidden = now.Before(v.at)
	return !v.hidden
}

// shown takes in that they were shown.
func (v *view) shown(began, done time.Time) {
	v.at = done.Add(min(showShare*done.Sub(began), walkEvery))
}

// show shows what has come while nothing is open, without waiting for the next tick, which is
// far then.
func show(t *term) {
	if began := time.Now(); t.links.view.due(began) {
		t.observe()
		t.links.view.shown(began, time.Now())
	}
}
