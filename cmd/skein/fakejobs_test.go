package main

import (
	"context"
	"crypto/sha256"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
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

// fakeOutputs are what jobBad left, by chunk.
func fakeOutputs() (list []job.OutputFile) {
	for chunk, text := range map[int]string{0: "one\n", 1: "two\n"} {
		list = append(list, job.OutputFile{Chunk: chunk, Name: "rows.csv", File: job.File{Hash: sha256.Sum256([]byte(text)), Size: 4}, Worker: "n1"})
	}
	slices.SortFunc(list, func(a, b job.OutputFile) int { return a.Chunk - b.Chunk })
	return list
}

func (f *fakeCluster) JobOutputs(_ context.Context, id job.ID) (api.JobOutputs, error) {
	out := api.JobOutputs{Job: id, Outputs: []job.OutputFile{}}
	if id == jobBad {
		out.Outputs, out.Sum = fakeOutputs(), &job.OutputSum{Manifest: cluster.Hash{1}, Files: 2, Bytes: 8}
	}
	return out, nil
}

func (f *fakeCluster) OpenOutput(_ context.Context, _ job.ID, chunk int, _ string) (job.OutputFile, io.ReadCloser, error) {
	return fakeOutputs()[chunk], io.NopCloser(strings.NewReader([]string{"one\n", "two\n"}[chunk])), nil
}

func (f *fakeCluster) JobLogs(_ context.Context, id job.ID, q api.JobLogQuery, send func(api.JobLog) error) error {
	lines := []api.JobLog{
		{Job: id, Chunk: 7, Attempt: 1, Worker: "n1", Seconds: 2, Error: "exit code 3; standard error: no licence found", Text: "no licence\x1b[2J\nfound"},
		{Job: id, Chunk: 7, Attempt: 2, Worker: "n3", Short: true, Text: "no licence\n"},
		{Job: id, Worker: "n2", Problem: "n2 not reached"},
	}
	if q.Follow {
		lines = append(lines,
			api.JobLog{Job: id, Chunk: 8, Attempt: 1, Worker: "n1", Running: true, Text: "one, "},
			api.JobLog{Job: id, Chunk: 8, Attempt: 1, Worker: "n1", Running: true, More: true, Text: "two\n"},
			api.JobLog{Job: id, Chunk: 8, Attempt: 1, Worker: "n1", More: true, Left: 9, Error: "exit code 4", Text: "end\n"})
	}
	if id != jobBad {
		lines = nil
	}
	for _, l := range lines {
		if q.Attempt > 0 && l.Attempt != q.Attempt {
			continue
		}
		if err := send(l); err != nil {
			return err
		}
	}
	return nil
}

func (f *fakeCluster) Zones(context.Context) (api.Zones, error) {
	return api.Zones{Holder: "n1", Term: 42, Unzoned: 1, Zones: []api.Zone{
		{Zone: "ams", Health: "healthy", ForSeconds: 7200, Hosts: 2, Alive: 2, Slots: 8, Free: 3, Voters: 2, RTTSeconds: new(0.0004), RTTFrom: "measured"},
		{Zone: "fra", Health: "unhealthy", Why: "none of 3 hosts is alive", ForSeconds: 12, Hosts: 3, Drained: 1, Voters: 1, RTTSeconds: nil},
	}}, nil
}

func (f *fakeCluster) WatchedZones(ctx context.Context) (api.Zones, error) { return f.Zones(ctx) }

func (f *fakeCluster) Reservations(context.Context) (api.Reservations, error) {
	return api.Reservations{Reservations: []api.Reservation{{Name: "nightly", Owner: "user:ann", Zone: "fra", Slots: 8, Until: time.Unix(1<<32, 0).UTC(), Actor: "uid:0@n1", At: time.Unix(1_700_000_000, 0).UTC()}}}, nil
}

func (f *fakeCluster) SetReservation(_ context.Context, _ string, set event.ReservationSet) (api.Reservation, error) {
	return api.Reservation{Name: set.Name, Owner: set.Owner, Zone: set.Zone, Slots: set.Slots, Until: time.Unix(1<<32, 0).UTC()}, nil
}
