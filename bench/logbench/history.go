package logbench

import (
	"context"
	"errors"
	"fmt"

	"github.com/skein-project/skein/bench/testbed"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog"
)

// fill writes n events of the usual kind, a thousand at a time.
func fill(ctx context.Context, o eventlog.Options, n int) error {
	return fillWith(ctx, o, n, history{})
}

func fillWith(ctx context.Context, o eventlog.Options, n int, h history) error {
	l, stop, err := testbed.RunLog(o)
	if err != nil {
		return err
	}
	for left := n; left > 0 && err == nil; {
		group := h.next(min(left, 1000))
		left -= len(group)
		_, err = l.Append(ctx, group)
	}
	return errors.Join(err, stop())
}

// history is what a cluster logs that works: a term, and under it one job
// after the other. Nearly all of it are results of chunks, of about 300 bytes.
type history struct {
	open    bool // no job ends
	jobs    int
	pending []event.Draft
}

const (
	historyTerm   = cluster.Term(1)
	historyChunks = 1000 // of one job
	historyBatch  = 25   // assigned at once
)

// next returns the next n drafts.
func (h *history) next(n int) []event.Draft {
	for len(h.pending) < n {
		if h.jobs == 0 {
			h.add(event.KindTermStart, event.TermStart{Term: historyTerm, Voters: []cluster.NodeID{"host-001"}, Grants: []cluster.NodeID{"host-001"}})
		}
		h.job()
	}
	group := h.pending[:n:n]
	h.pending = h.pending[n:]
	return group
}

func (h *history) add(kind event.Kind, body any) {
	h.pending = append(h.pending, event.Draft{Term: historyTerm, Kind: kind, Body: body})
}

// job adds the whole life of a job.
func (h *history) job() {
	h.jobs++
	const perChunk = 1000
	spec := job.Spec{
		Name: "bench", Key: fmt.Sprintf("key-%d", h.jobs), Artefact: cluster.Hash{1}, Iterations: historyChunks * perChunk, Chunk: perChunk,
	}.WithDefaults()
	id := job.NewID("uid:1000", spec.Key)
	h.add(event.KindJobSubmitted, event.JobSubmitted{Job: id, Spec: spec, Owner: "uid:1000", Chunks: spec.Chunks()})
	for first := 0; first < historyChunks; first += historyBatch {
		var batch []job.Attempt
		for i := range historyBatch {
			batch = append(batch, job.Attempt{Chunk: first + i, Number: 1, Worker: workerOf(first + i)})
		}
		h.add(event.KindChunksAssigned, event.ChunksAssigned{Job: id, Assignments: batch})
		for _, a := range batch {
			h.add(event.KindChunkAccepted, event.ChunkAccepted{
				Job: id, Chunk: a.Chunk, Attempt: 1, Worker: a.Worker, Seconds: 0.125,
				Result: job.ChunkResult{Iterations: perChunk, Metrics: map[string]job.Metric{
					"hits": {N: perChunk, Mean: 0.785, M2: 168.775, Min: 0, Max: 1},
				}},
			})
		}
	}
	if !h.open {
		h.add(event.KindJobDone, event.JobDone{Job: id, State: job.Completed})
	}
}

func workerOf(chunk int) cluster.NodeID { return cluster.NodeID(fmt.Sprintf("host-%03d", 1+chunk%50)) }
