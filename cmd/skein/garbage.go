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

// garbage decides gcIdle or gcBusy by how often memory is collected.
type garbage struct {
	busy bool
	last time.Time // of the last collection
	runs int       // in a row that came soon
}

// collected notes a collection and returns the percentage from now on.
func (g *garbage) collected(now time.Time) int {
	gap := now.Sub(g.last)
	g.last = now
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
		return gcBusy
	}
	return gcIdle
}

// limitGarbage has the percentage follow what the process does: every collection
// finds an object that nothing refers to, and that is when to decide.
func limitGarbage() {
	set := gcIdle
	debug.SetGCPercent(set)
	var arm func(*garbage)
	arm = func(g *garbage) {
		runtime.AddCleanup(&garbage{}, func(g *garbage) {
			if next := g.collected(time.Now()); next != set {
				set = next
				debug.SetGCPercent(set)
			}
			arm(g)
		}, g)
	}
	arm(&garbage{last: time.Now()})
}
