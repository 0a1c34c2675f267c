package overloadbench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/overload"
	"github.com/skein-project/skein/pressure/gate"
)

// A host that does 400 requests a second: four at a time, 10 ms each on average. Whoever
// asks waits for 200 ms; they come by themselves, four times as many.
const (
	processors = 4
	service    = 10 * time.Millisecond
	patience   = 200 * time.Millisecond
	capacity   = float64(processors) * float64(time.Second) / float64(service)
	times      = 4
	// warmUp is not counted; it is as long as a gate takes to find out how many places
	// there are.
	warmUp = 3 * time.Second
)

// enter lets a request in, and returns what is called when it is done.
type enter func(ctx context.Context) (leave func(), ok bool)

// bare lets everybody in.
func bare(context.Context) (func(), bool) { return func() {}, true }

// fixed lets so many in at once.
func fixed(places int) enter {
	taken := make(chan struct{}, places)
	return func(context.Context) (func(), bool) {
		select {
		case taken <- struct{}{}:
			return func() { <-taken }, true
		default:
			return nil, false
		}
	}
}

// ours is the gate of a daemon.
func ours() (enter, error) {
	g, err := gate.New(gate.Options{Level: func() overload.Level { return overload.Normal }})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (func(), bool) {
		leave, refused := g.Enter(ctx, overload.Submit, true)
		return leave, refused == nil
	}, nil
}

// Goodput adds a row for each other host: which part of what it can do is done in time.
func Goodput(ctx context.Context, s *suite.Suite) error {
	for _, peer := range []struct {
		name string
		make func() enter
	}{
		{"everything is let in", func() enter { return bare }},
		{"40 places, twice as long as one waits: a good guess", func() enter { return fixed(40) }},
		{"400 places, right for a host ten times as large", func() enter { return fixed(400) }},
	} {
		row := suite.Series{
			Name: "goodput at 4x load, " + peer.name, Unit: "of capacity", With: peer.name, Target: suite.Want("ours", ">=", 0.9), Digest: suite.Median,
		}
		for i := range s.Size.Rounds {
			s.Progress("%s, round %d of %d", peer.name, i+1, s.Size.Rounds)
			mine, err := ours()
			if err != nil {
				return err
			}
			err = suite.InTurn(i,
				func() error { return offer(ctx, s.Size.Burst, mine, &row.Ours) },
				func() error { return offer(ctx, s.Size.Burst, peer.make(), &row.Peer) })
			if err != nil {
				return err
			}
		}
		s.Add(row)
	}
	return nil
}

// offer sends the load for the warm-up and five bursts, and adds what was done in time.
func offer(ctx context.Context, burst time.Duration, let enter, out *[]float64) error {
	long := 5 * burst
	warm := min(warmUp, 3*burst)
	busy := make(chan struct{}, processors)
	var good atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	ended, end := context.WithCancel(ctx)
	defer end()
	ask := func(work time.Duration) {
		at := time.Now()
		waits, gone := context.WithTimeout(ctx, patience)
		defer gone()
		leave, ok := let(waits)
		if !ok {
			return
		}
		defer leave()
		select {
		case busy <- struct{}{}:
		case <-ended.Done(): // the round is over: what still waits would never be in time
			return
		}
		time.Sleep(work)
		<-busy
		if at.Sub(began) >= warm && time.Since(at) <= patience {
			good.Add(1)
		}
	}
	every := float64(time.Second) / (times * capacity)
	next := time.Duration(0)
	for next < warm+long {
		next += time.Duration(rand.ExpFloat64() * every)
		if err := suite.Pause(ctx, time.Until(began.Add(next))); err != nil {
			return fmt.Errorf("offer load: %w", err)
		}
		work := time.Duration(rand.ExpFloat64() * float64(service))
		all.Go(func() { ask(work) })
	}
	if err := suite.Pause(ctx, patience); err != nil {
		return fmt.Errorf("offer load: %w", err)
	}
	end()
	all.Wait()
	*out = append(*out, float64(good.Load())/(capacity*long.Seconds()))
	return nil
}
