package publisher

import "time"

// pacer decides when the next descriptor is built: changes are gathered for a
// moment, builds keep their distance but for a burst, one that failed is tried
// again ever later, and a descriptor is renewed before it ends.
type pacer struct {
	timing Timing

	version   uint64 // of the last build; 0: there was none
	building  bool
	dirty     bool          // there is something new since the last build
	changed   time.Duration // when that came
	failures  int           // builds in a row
	notBefore time.Duration // of the next build, after one that failed
	paid      time.Duration // how far the builds so far reach, MinGap each
	refresh   time.Duration // when the descriptor is renewed anyway
}

// touch notes a change. Changes are gathered from the first one on.
func (p *pacer) touch(now time.Duration) {
	if !p.dirty {
		p.dirty, p.changed = true, now
	}
}

// again makes the next build due at once, whatever failed before; builds keep their
// distance.
func (p *pacer) again(now time.Duration) {
	p.dirty, p.changed, p.notBefore = true, now-p.timing.Coalesce, 0
}

// idle reports whether a descriptor stands and nothing is to be built.
func (p *pacer) idle() bool { return !p.dirty && !p.building && p.version > 0 }

// renew makes the next build due if the descriptor has stood for long enough.
func (p *pacer) renew(now time.Duration) {
	if p.idle() && now >= p.refresh {
		p.dirty, p.changed = true, now-p.timing.Coalesce
	}
}

// at says when the next build is due, if there is a reason for one.
func (p *pacer) at() (time.Duration, bool) {
	if !p.dirty || p.building {
		return 0, false
	}
	burst := time.Duration(p.timing.Burst-1) * p.timing.MinGap
	return max(p.changed+p.timing.Coalesce, p.notBefore, p.paid-burst), true
}

// begin notes a build that begins now; chance is any number.
func (p *pacer) begin(now time.Duration, chance uint64) {
	p.version++
	p.building, p.dirty = true, false
	p.paid = max(p.paid, now) + p.timing.MinGap
	jitter := time.Duration(chance % uint64(2*p.timing.Jitter+1))
	p.refresh = now + p.timing.Period - p.timing.Jitter + jitter
}

// failed ends a build without a descriptor; chance is any number.
func (p *pacer) failed(now time.Duration, chance uint64) {
	p.building = false
	p.failures++
	p.notBefore = now + p.timing.backoff(p.failures, chance)
	p.touch(now)
}

// succeeded ends a build with one.
func (p *pacer) succeeded() { p.building, p.failures = false, 0 }
