package state

import (
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state/flows"
	"github.com/skein-project/skein/eventlog/state/jobs"
	"github.com/skein-project/skein/eventlog/state/registry"
)

// What package jobs tells of jobs.
type (
	// Job is a copy of what is known of one job.
	Job = jobs.Job
	// OpenChunk is a chunk that is not accepted for good.
	OpenChunk = jobs.OpenChunk
	// ChunkMap says where in a job its chunks are how far.
	ChunkMap = jobs.Map
	// ChunkCounts says how many chunks of a job are in each state.
	ChunkCounts = jobs.ChunkCounts
)

// Outside returns who is let in from outside. It is not to be changed, and read only
// while the State is.
func (s *State) Outside() *registry.Registry { return &s.outside }

// Flows returns the runs of workflows. It is not to be changed, and read only while the
// State is.
func (s *State) Flows() *flows.Fold { return s.flows }

// Artefacts are those that open jobs, and runs of workflows that have not ended, need.
func (s *State) Artefacts() map[cluster.Hash]bool {
	need := s.flows.Artefacts()
	for _, j := range s.Jobs() {
		if !j.State.Final() {
			for _, h := range j.Spec.Hashes() {
				need[h] = true
			}
		}
	}
	return need
}

// Result returns the result of a job so far: what the event that ends it says.
// A stale State has none.
func (s *State) Result(id job.ID) (job.Result, bool) {
	if s.stale {
		return job.Result{}, false
	}
	return s.jobs.Result(id)
}

// Job returns a copy of one job, aggregates of what is accepted so far
// included.
func (s *State) Job(id job.ID) (Job, bool) { return s.jobs.Job(id) }

// Jobs returns all jobs in order of submission, without failures, aggregates
// and workers.
func (s *State) Jobs() []Job { return s.jobs.Jobs() }

// Map returns the map of a job's chunks in at most so many runs.
func (s *State) Map(id job.ID, most int) (ChunkMap, bool) { return s.jobs.Map(id, most) }

// Open returns the open chunks of a job by index: what a new holder needs to
// go on. It is empty for a job that is unknown or done.
func (s *State) Open(id job.ID) []OpenChunk { return s.jobs.Open(id) }

// Unfinished returns the open chunks of a job, those that were given up, and
// those of which differing results were accepted: all that the next holder must
// know one by one.
func (s *State) Unfinished(id job.ID) []OpenChunk { return s.jobs.Unfinished(id) }

// Expired returns at most limit jobs that ended before and are to be forgotten
// by now, sorted.
func (s *State) Expired(now cluster.HLC, limit int) []job.ID { return s.jobs.Expired(now, limit) }
