package main

import (
	"runtime"
	"runtime/debug"
	"time"
)

// How much garbage a daemon leaves, in percent of what it keeps. While much is
// allocated, some tens of megabytes let writers and syncs wait less often for a
// processor. A daemon with little to do collects once a minute at most, which costs
// nothing, and returns the memory.
const (
	gcIdle = 100
	gcBusy = 400
)

const (
	// A daemon is busy after busyRuns collections in a row that came within busyGap;
	// a start has fewer. It is idle again when there is more than idleGap between
	// two, which with gcBusy is less than a third of the garbage per second.
	busyGap  = 2 * time.Second
	busyRuns = 8
	idleGap  = 30 * time.Second
)

// startTime is how long a start takes at most, as a rule: what of the program only that
// needed is forgotten then, and not two minutes later with the first collection.
const startTime = 20 * time.Second

// garbage decides gcIdle or gcBusy by how often memory is collected.
type garbage struct {
	busy  bool
	quiet bool      // idleGap lay before the last collection
	last  time.Time // of the last collection
	runs  int       // in a row that came soon
}

// collected notes a collection, and returns the percentage from now on and whether
// a start or some work is over with it.
func (g *garbage) collected(now time.Time) (percent int, over bool) {
	gap := now.Sub(g.last)
	g.last = now
	over = gap > idleGap && !g.quiet
	g.quiet = gap > idleGap
	if g.runs++; gap > busyGap {
		g.runs = 0
	}
	switch {
	case g.runs >= busyRuns:
		g.busy = true
	case gap > idleGap:
		g.busy = false
	}
	if g.busy {
		return gcBusy, over
	}
	return gcIdle, over
}

// limitGarbage has the percentage follow what the process does, and forgets what of
// the program only a start or some work needed: every collection finds an object
// that nothing refers to, and that is when to decide.
func limitGarbage() {
	set := gcIdle
	debug.SetGCPercent(set)
	var arm func(*garbage)
	arm = func(g *garbage) {
		runtime.AddCleanup(&garbage{}, func(g *garbage) {
			next, over := g.collected(time.Now())
			if next != set {
				set = next
				debug.SetGCPercent(set)
			}
			if over {
				_, _ = forgetProgram() // else it stays resident
			}
			arm(g)
		}, g)
	}
	arm(&garbage{last: time.Now()})
	time.AfterFunc(startTime, func() { _, _ = forgetProgram() })
}
