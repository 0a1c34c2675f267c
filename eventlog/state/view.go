package state

import (
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state/flows"
	"github.com/skein-project/skein/eventlog/state/jobs"
	"github.com/skein-project/skein/eventlog/state/loads"
	"github.com/skein-project/skein/eventlog/state/registry"
	"github.com/skein-project/skein/eventlog/state/schedules"
)

// What package jobs tells of jobs.
type (
	// Job is a copy of what is known of one job.
	Job = jobs.Job
	// OpenChunk is a chunk that is not accepted for good.
	OpenChunk = jobs.OpenChunk
	// Logged is a failed attempt whose words are in an artefact.
	Logged = jobs.Logged
	// ChunkMap says where in a job its chunks are how far.
	ChunkMap = jobs.Map
	// ChunkCounts says how many chunks of a job are in each state.
	ChunkCounts = jobs.ChunkCounts
	// Saved is a checkpoint of a chunk.
	Saved = jobs.Saved
)

// Outside returns who is let in from outside. It is not to be changed, and read only
// while the State is.
func (s *State) Outside() *registry.Registry { return &s.outside }

// Flows returns the runs of workflows. It is not to be changed, and read only while the
// State is.
func (s *State) Flows() *flows.Fold { return s.flows }

// Schedules returns which workflows are to run by themselves. It is not to be changed, and
// read only while the State is.
func (s *State) Schedules() *schedules.Fold { return s.schedules }

// Loads returns the load tests that run on hosts. It is not to be changed, and only to be
// read where the State is.
func (s *State) Loads() *loads.Fold { return s.loads }

// Artefacts are those that open jobs, runs of workflows that have not ended, and
// schedules need.
func (s *State) Artefacts() map[cluster.Hash]bool {
	need := s.flows.Artefacts()
	s.schedules.AddArtefacts(need)
	s.loads.AddArtefacts(need)
	for _, j := range s.Jobs() {
		if !j.State.Final() {
			for _, h := range j.Spec.Hashes() {
				need[h] = true
			}
		}
	}
	return need
}

// Kept are the artefacts that jobs and load tests left and that are kept as long as those
// are known, and the files that jobs and workflows are given as long as they go on.
func (s *State) Kept() map[cluster.Hash]bool {
	kept := s.jobs.Kept()
	s.loads.AddReports(kept)
	s.flows.AddFiles(kept)
	s.schedules.AddFiles(kept)
	return kept
}

// Outputs lists the files that the chunks of a job left, by chunk and name.
func (s *State) Outputs(id job.ID) []job.OutputFile { return jobs.OutputsOf(s.jobs, id) }

// Checkpoint is from where the next attempt at a chunk goes on, if there is such a place.
func (s *State) Checkpoint(id job.ID, chunk int) (Saved, bool) {
	return jobs.Checkpoint(s.jobs, id, chunk)
}

// Checkpoints are the files of all checkpoints of open chunks.
func (s *State) Checkpoints() map[cluster.Hash]bool { return jobs.Checkpoints(s.jobs) }

// OutputBytes is how many bytes the chunks of a job left.
func (s *State) OutputBytes(id job.ID) int64 { return jobs.OutputBytes(s.jobs, id) }

// Output is a file that a chunk of a job left.
func (s *State) Output(id job.ID, chunk int, name string) (job.OutputFile, bool) {
	return jobs.Output(s.jobs, id, chunk, name)
}

// Left says of hashes whose outputs they are: for each that some job left, whether one of
// owner's did.
func (s *State) Left(owner string, hashes map[cluster.Hash]bool) map[cluster.Hash]bool {
	return jobs.Left(s.jobs, owner, hashes)
}

// JobLogs lists the first failures of a job whose words outlive the hosts that ran them,
// the oldest first.
func (s *State) JobLogs(id job.ID) []Logged { return s.jobs.Logs(id) }

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
