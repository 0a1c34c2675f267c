package ends

import "time"

// MinExtension is the least by which a deadline is put off.
const MinExtension = time.Second

// Deadline is when an attempt ends without a result.
type Deadline struct {
	Limit    time.Duration // counted from the assignment
	Granted  int           // extensions since progress was made
	Extended time.Duration // by which it was put off in all
}

// Extension is how much longer the attempt may take when its deadline comes: half
// of what is left of most, once for each progress; 0: no longer.
func (d *Deadline) Extension(most time.Duration) time.Duration {
	if left := (most - d.Extended) / 2; left >= MinExtension && d.Granted == 0 {
		return left
	}
	return 0
}

// Extend puts the deadline off; the caller sets the timer.
func (d *Deadline) Extend(by time.Duration) {
	d.Extended += by
	d.Granted++
}

// Total is the time that the attempt had in all.
func (d *Deadline) Total() time.Duration { return d.Limit + d.Extended }

// Presence is whether the worker has the attempt.
type Presence struct {
	Misses  int  // times in a row that it was not in the worker's list
	Lost    bool // the worker does not have it
	Adopted bool // the worker had it before the plan knew of it, nobody here knows since when
}

// Missed takes in that the attempt is not in the worker's list, and says whether
// it counts as lost from now on: one list may cross an assignment.
func (p *Presence) Missed() bool {
	if p.Misses++; p.Misses < 2 || p.Lost {
		return false
	}
	p.Lost = true
	return true
}
