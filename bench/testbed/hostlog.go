package testbed

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog"
)

// measured is the job that the events of Draft are of.
var measured = job.NewID("uid:1000", "bench")

// Submission is of the job of Draft. It comes first, as in every log: what is said of a
// job that nobody submitted is kept in memory until somebody does.
func Submission(term cluster.Term) []event.Draft {
	spec := job.Spec{Name: "bench", Key: "bench", Artefact: cluster.Hash{1}, Iterations: 100_000, Chunk: 1000}.WithDefaults()
	return []event.Draft{{Term: term, Kind: event.KindJobSubmitted, Body: event.JobSubmitted{
		Job: measured, Spec: spec, Owner: "uid:1000", Chunks: spec.Chunks(),
	}}}
}

// Draft is of an event as most are in a log: the result of a chunk, about 300
// bytes on disk. The host that appends it holds the lease of term.
func Draft(term cluster.Term) []event.Draft {
	return []event.Draft{{Term: term, Kind: event.KindChunkAccepted, Body: event.ChunkAccepted{
		Job: measured, Chunk: 17, Attempt: 1, Worker: "host-017", Seconds: 0.125,
		Result: job.ChunkResult{Iterations: 1000, Metrics: map[string]job.Metric{
			"hits": {N: 1000, Mean: 0.785, M2: 168.775, Min: 0, Max: 1},
		}},
	}}}
}

// LogOptions are those of a log that no other host shares. It may write under
// any term.
func LogOptions(dir string) (eventlog.Options, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return eventlog.Options{
		Dir: dir, Cluster: "bench", Self: "host-001", Key: key, MayAct: AnyTerm, PullEvery: -1, Logger: zerolog.Nop(),
	}, err
}

// AnyTerm lets a host write under any term.
func AnyTerm(cluster.Term) bool { return true }

// RunLog opens a log and runs it until stop is called, which returns how it
// ended.
func RunLog(o eventlog.Options) (l *eventlog.Log, stop func() error, err error) {
	if l, err = eventlog.Open(o); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	return l, func() error {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}, nil
}
