package jobs

import (
	"slices"

	"github.com/skein-project/skein/cluster/job"
)

// Map says where in a job its chunks are how far, as runs of chunks in the same state.
type Map struct {
	// Step is 1, or how many chunks stand together in the state of the one of them that
	// most needs a look, because there were too many runs.
	Step int
	Runs []Run // of all chunks, in order
}

// Run is chunks that follow each other.
type Run struct {
	State string
	Count int
}

// mapState is the state of a chunk in a Map, of several the highest.
type mapState uint8

const (
	mapAccepted mapState = iota
	mapUnknown           // of a job with a result for good that names not all it skipped
	mapSkipped           // without a result, and the job has ended
	mapPending
	mapAssigned
	mapParked // given up for want of hosts
	mapFailed // given up for its failures
)

var mapNames = [...]string{
	mapAccepted: "accepted", mapUnknown: "unknown", mapSkipped: "skipped", mapPending: "pending", mapAssigned: "assigned",
	mapParked: "parked", mapFailed: "failed",
}

// Map returns the map of a job's chunks in at most so many runs.
func (f *Fold) Map(id job.ID, most int) (Map, bool) {
	j, ok := f.jobs[id]
	if !ok {
		return Map{}, false
	}
	return mapOf(j.mapStates(), most), true
}

// mapStates is the state of each chunk.
func (j *foldedJob) mapStates() []mapState {
	states := make([]mapState, j.total)
	if r := j.sealed.V; r != nil {
		sealedStates(states, r)
		return states
	}
	for i := range j.work.chunks {
		states[i] = j.work.chunks[i].mapState(j.ended())
	}
	return states
}

func (c *chunk) mapState(ended bool) mapState {
	st := c.state()
	if ended && st != chunkAccepted {
		return mapSkipped
	}
	return [...]mapState{
		chunkPending: mapPending, chunkAssigned: mapAssigned, chunkAccepted: mapAccepted, chunkFailed: mapFailed, chunkParked: mapParked,
	}[st]
}

// sealedStates is what a result tells of each chunk.
func sealedStates(states []mapState, r *job.Result) {
	skipped, last := 0, -1
	for _, s := range r.Skipped {
		for i := max(0, s.First); i <= s.Last && i < len(states); i++ {
			states[i] = mapSkipped
			skipped, last = skipped+1, i
		}
	}
	if skipped < len(states)-r.Accepted { // there was no room for more spans
		for i := last + 1; i < len(states); i++ {
			states[i] = mapUnknown
		}
	}
}

// mapOf joins states in steps that double until the runs are not too many.
func mapOf(states []mapState, most int) Map {
	for step := 1; ; step *= 2 {
		if runs, ok := runsOf(states, step, max(1, most)); ok {
			return Map{Step: step, Runs: runs}
		}
	}
}

// runsOf reports whether most runs are enough.
func runsOf(states []mapState, step, most int) (runs []Run, ok bool) {
	for cell := range slices.Chunk(states, step) {
		name := mapNames[slices.Max(cell)]
		switch n := len(runs); {
		case n > 0 && runs[n-1].State == name:
			runs[n-1].Count += len(cell)
		case n == most:
			return nil, false
		default:
			runs = append(runs, Run{State: name, Count: len(cell)})
		}
	}
	return runs, true
}
