package convert

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/state/jobs"
)

// Job returns what a list of jobs shows of a job that does rate iterations per
// second, 0 for unknown.
func Job(j state.Job, rate float64, now time.Time) api.Job {
	out := api.Job{
		ID: j.ID, Name: j.Spec.Name, State: j.State, Reason: j.Reason, Owner: j.Owner, Spec: j.Spec,
		SubmittedAt: j.Submitted.Time(),
		Chunks: api.ChunkCounts{
			Total: j.Chunks, Pending: j.Counts.Pending, Assigned: j.Counts.Assigned,
			Accepted: j.Counts.Accepted, Failed: j.Counts.Failed, Parked: j.Counts.Parked,
		},
		StoppedBy: j.StoppedBy, StopReason: j.StopReason,
		Iterations: api.IterationCounts{Total: j.Spec.Iterations, Accepted: j.Iterations},
		Attempts:   api.AttemptCounts{Assigned: uint64(j.Attempts), Failed: uint64(j.Failures), Reclaimed: uint64(j.Reclaims)},
		Workers:    []api.JobWorker{}, Aggregates: map[string]api.Summary{}, Failures: []api.Failure{},
	}
	if j.State == job.Queued {
		out.Waits = j.Queued
	}
	if c := j.Counts; !j.State.Final() && j.Spec.Partial() == job.PartialWait && c.Failed > 0 && c.Pending+c.Assigned == 0 {
		what := "1 chunk was"
		if c.Failed > 1 {
			what = fmt.Sprintf("%d chunks were", c.Failed)
		}
		out.Waits = fmt.Sprintf("for an operator, %s given up: retry it, or stop it", what)
	}
	end := now
	if j.Finished != 0 {
		end = j.Finished.Time()
		out.FinishedAt = &end
	}
	out.ElapsedSeconds = max(0, end.Sub(j.Submitted.Time()).Seconds())
	if rate > 0 {
		out.RatePerSecond = &rate
		if c := j.Counts; !j.State.Final() && c.Pending+c.Assigned > 0 {
			givenUp := min(uint64(c.Failed)*j.Spec.Chunk, j.Spec.Iterations-j.Iterations)
			out.ETASeconds = new(float64(j.Spec.Iterations-j.Iterations-givenUp) / rate)
		}
	}
	return out
}

// JobDetails adds what a list of jobs leaves out; v says in which zones hosts are.
func JobDetails(out *api.Job, job state.Job, open []state.OpenChunk, v *coord.View) {
	out.Skipped, out.Anomalies, out.Outputs = job.Skipped, job.Anomalies, job.Outputs
	for _, a := range job.Aggregates {
		out.Aggregates[a.Name] = api.Summarise(a.Metric)
	}
	out.Warning = neverEarly(job)
	for _, f := range slices.Backward(job.LastFailures) {
		out.Failures = append(out.Failures, api.Failure{
			Chunk: f.Chunk, Attempt: f.Attempt, Worker: f.Worker, At: f.At.Time(), Reason: f.Reason, Final: f.Final,
		})
	}
	parts := map[cluster.NodeID]*api.JobWorker{}
	part := func(n cluster.NodeID) *api.JobWorker {
		if parts[n] == nil {
			parts[n] = &api.JobWorker{Node: n}
		}
		return parts[n]
	}
	for _, w := range job.Workers {
		part(w.Worker).Accepted = w.Chunks
	}
	for _, w := range job.GivenUp {
		part(w.Worker).Failed = w.Chunks
	}
	for _, c := range open {
		for _, t := range c.Open {
			part(t.Worker).Assigned++
		}
	}
	for _, n := range slices.Sorted(maps.Keys(parts)) {
		out.Workers = append(out.Workers, *parts[n])
	}
	out.Zones = jobZones(out.Workers, job.Workers, v)
}

// jobZones adds up the parts of hosts by zone; none if no host is in one.
func jobZones(parts []api.JobWorker, shares []job.WorkShare, v *coord.View) []api.JobZone {
	in := map[string]*api.JobZone{}
	of := func(n cluster.NodeID) *api.JobZone {
		m, _ := v.Member(n)
		z := m.Zone
		if cluster.IsOutside(n) {
			z = cluster.OutsideZone
		}
		if in[z] == nil {
			in[z] = &api.JobZone{Zone: z}
		}
		return in[z]
	}
	for _, p := range parts {
		z := of(p.Node)
		z.Assigned, z.Accepted, z.Failed = z.Assigned+p.Assigned, z.Accepted+p.Accepted, z.Failed+p.Failed
	}
	for _, s := range shares {
		of(s.Worker).Iterations += s.Iterations
	}
	if len(in) == 0 || len(in) == 1 && in[""] != nil {
		return nil
	}
	out := make([]api.JobZone, 0, len(in))
	for _, z := range slices.Sorted(maps.Keys(in)) {
		out = append(out, *in[z])
	}
	return out
}

// neverEarly says that a job does not end early because no result has the metric of
// its rule, or "".
func neverEarly(j state.Job) string {
	want := j.Spec.EarlyStop.Metric
	if want == "" || j.Counts.Accepted == 0 || slices.ContainsFunc(j.Aggregates, func(m jobs.Named) bool { return m.Name == want }) {
		return ""
	}
	const most = 5
	var have []string
	for i, m := range j.Aggregates {
		if i == most {
			have = append(have, fmt.Sprintf("and %d more", len(j.Aggregates)-most))
			break
		}
		have = append(have, m.Name)
	}
	if len(have) == 0 {
		have = []string{"none"}
	}
	return fmt.Sprintf("it does not stop early: no result has metric %q, they have %s", want, strings.Join(have, ", "))
}
