package main

import (
	"context"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
)

func (f *fakeCluster) WorkerGroups(ctx context.Context) (api.Workers, error) { return f.Workers(ctx) }

var fakeNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const (
	jobGood = job.ID("jgoodaaaaaaaaaaaaaaaaaaaaaa")
	jobBad  = job.ID("jbadaaaaaaaaaaaaaaaaaaaaaaa")
)

func (f *fakeCluster) Explain(_ context.Context, id job.ID) (api.JobExplanation, error) {
	out := api.JobExplanation{Job: id, State: f.jobs[id].State, Holder: "n1", Term: 42, Reasons: []api.WaitReason{}, Workers: []api.ExplainedWorker{}}
	if id != jobBad {
		return out, nil
	}
	out.State, out.Waits, out.Since, out.Hint = job.Pending, "1 of 3 workers eligible: busy 1, not_accepted 1, zone 1", new(fakeNow.Add(-time.Minute)), "move one there"
	out.Workers = []api.ExplainedWorker{
		{Node: "n1", Eligible: true, Reason: "busy", Text: "has no room", Accepted: 60},
		{Node: "n2", Reason: "not_accepted", Text: "its host does not run the jobs of user:eve"},
		{Node: "n3", Reason: "zone", Text: "not in zone mars\x1b[2J"},
	}
	return out, nil
}
