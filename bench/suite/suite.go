package suite

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

// TargetWorkers is the number of workers for which there are targets.
const TargetWorkers = 50

// Options is how much is measured.
type Options struct {
	Crashes, Handovers int
	Rounds             int           // of throughputs
	Burst              time.Duration // of one round of a throughput
	Events             int           // in the log that is verified
	History            int           // events of a catch-up
	CatchUps           int
	Propagations       int
	Workers            []int         // of the queues
	Submits            int           // of single chunks, each round
	Hosts, Kills       int           // of the membership
	Window             time.Duration // of one round of idle traffic
	Loss               time.Duration // how long datagrams are lost
	Tunnel             bool
	OnionRounds        int // of the publisher beside onionbalance; 0: none
	Watchers           int
	Followers          int // beside as many that poll
	Replayed           int // events
	Appends            int // that are followed
	PageHosts          int // of the network that the page shows
	PageEvents         int
	Listeners          int           // of the gateway's pushes
	Crew               int           // outside workers that do chunks
	Many               int           // that are there
	Tokens             int           // requests for them, each round
	Scale              []int         // outside workers on one Redis
	ScaleWindow        time.Duration // of their beats
	Chain              int           // steps of a workflow that is one
	Instances          int           // of a run
	OutputBytes        int64         // that a chunk leaves
}

// The full run gives percentiles of takeovers enough samples; the tiny one is
// for the tests.
var (
	Full = Options{
		Crashes: 30, Handovers: 50, Rounds: 5, Burst: time.Second, Events: 300_000,
		History: 1_000_000, CatchUps: 3, Propagations: 200, Workers: []int{1, TargetWorkers, 500}, Submits: 40,
		Hosts: 100, Kills: 5, Window: 10 * time.Second, Loss: time.Minute, Tunnel: true, OnionRounds: 3, Watchers: 1000,
		Followers: 100, Replayed: 200_000, Appends: 100, PageHosts: 500, PageEvents: 100_000,
		Listeners: 100, Crew: 500, Many: 10_000, Tokens: 10_000,
		Scale: []int{1000, 10_000, 100_000}, ScaleWindow: 30 * time.Second, Chain: 200, Instances: 16_384, OutputBytes: 64 << 20,
	}
	Tiny = Options{
		Crashes: 1, Handovers: 1, Rounds: 1, Burst: 50 * time.Millisecond, Events: 2000,
		History: 3000, CatchUps: 1, Propagations: 2, Workers: []int{TargetWorkers}, Submits: 10,
		Hosts: 4, Kills: 1, Window: time.Second, Loss: time.Second, Watchers: 20,
		Followers: 5, Replayed: 3000, Appends: 2, PageHosts: 100, PageEvents: 1000,
		Listeners: 5, Crew: 8, Many: 100, Tokens: 100,
		Scale: []int{20, 100}, ScaleWindow: 4 * time.Second, Chain: 8, Instances: 1024, OutputBytes: 1 << 20,
	}
)

// Suite collects the rows of a run.
type Suite struct {
	Size    Options
	Dir     string
	Log     io.Writer
	Group   string
	Began   time.Time
	Rows    []Series
	Skipped []Skip
}

// Add adds a row.
func (s *Suite) Add(r Series) { s.Rows = append(s.Rows, r) }

// Skip notes what is not measured, and why.
func (s *Suite) Skip(name, reason string) { s.Skipped = append(s.Skipped, Skip{name, reason}) }

// Progress tells who waits that something goes on.
func (s *Suite) Progress(format string, args ...any) {
	fmt.Fprintf(s.Log, "%s %4.0f s: %s\n", s.Group, time.Since(s.Began).Seconds(), fmt.Sprintf(format, args...))
}

// InTurn runs both, and changes who goes first.
func InTurn(round int, ours, peer func() error) error {
	if round%2 == 1 {
		ours, peer = peer, ours
	}
	if err := ours(); err != nil {
		return err
	}
	return peer()
}

// Phase waits up to half a second more, so that the rounds do not start in
// step with anyone's timers.
func Phase(ctx context.Context) error {
	return Pause(ctx, time.Duration(rand.Int64N(int64(500*time.Millisecond))))
}

// Poll waits until f holds, at most limit.
func Poll(ctx context.Context, what string, limit time.Duration, f func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %s", what, limit)
		case <-tick.C:
		}
	}
	return nil
}

// Pause waits for d.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
