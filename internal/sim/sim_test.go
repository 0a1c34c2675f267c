package sim

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
)

var (
	seedsFlag = flag.Int("seeds", 1000, "how many seeds TestSim runs")
	seedFlag  = flag.Uint64("seed", 1, "the first seed of TestSim")
	stopFlag  = flag.Int("stop", 1, "stop after so many seeds with a violation, 0: never")
	stepsFlag = flag.Bool("steps", false, "print everything that happens, use with -seeds 1")
)

// TestSim runs -seeds worlds from -seed on. A violation prints the command
// that replays it.
func TestSim(t *testing.T) {
	seeds := *seedsFlag
	if testing.Short() {
		seeds = min(seeds, 200)
	}
	began := time.Now() //nolint:forbidigo // how fast the simulation is
	results := runSeeds(*seedFlag, seeds, *stopFlag)
	took := time.Since(began) //nolint:forbidigo // how fast the simulation is
	var total time.Duration
	var steps, events uint64
	bad, terms, ran := 0, 0, 0
	for _, r := range results {
		if r.Simulated == 0 {
			continue
		}
		ran++
		total += r.Simulated
		steps += r.Steps
		events += r.Events
		terms += r.Terms
		if len(r.Violations) > 0 {
			bad++
			if bad <= 5 {
				t.Errorf("seed %d (%s, %d hosts) %s\nreplay: go test ./internal/sim -run TestSim -seeds 1 -seed %d -steps",
					r.Seed, r.Profile, r.Nodes, r.Violations[0], r.Seed)
			}
		}
	}
	if bad > 5 {
		t.Errorf("%d more seeds with violations", bad-5)
	}
	fmt.Printf("events=%d steps=%d terms=%d in %s on %d cores: %.2f M events/s\n", events, steps, terms,
		took.Round(time.Millisecond), runtime.GOMAXPROCS(0), float64(events)/took.Seconds()/1e6)
	for _, p := range []cluster.Profile{cluster.ProfileClassic, cluster.ProfileLAN, cluster.ProfileFast} {
		var fail, hand []time.Duration
		for _, r := range results {
			if r.Profile == p && r.Failover > 0 && r.Nodes > 2 {
				fail = append(fail, r.Failover)
			}
			if r.Profile == p && r.Handover > 0 {
				hand = append(hand, r.Handover)
			}
		}
		fmt.Printf("profile=%s crash_failover %s release_handover %s\n", p, quantiles(fail), quantiles(hand))
	}
	fmt.Printf("seeds=%d hours=%.0f violations=%d\n", ran, total.Hours(), bad)
}

func quantiles(d []time.Duration) string {
	if len(d) == 0 {
		return "n=0"
	}
	slices.Sort(d)
	at := func(q float64) time.Duration {
		return d[min(len(d)-1, int(q*float64(len(d))))].Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("n=%d p50=%s p99=%s max=%s", len(d), at(0.5), at(0.99), at(1))
}

func runSeeds(first uint64, n, stop int) []Result {
	// Worlds make much short-lived garbage.
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	results := make([]Result, n)
	var next, bad atomic.Int64
	var wg sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n || (stop > 0 && bad.Load() >= int64(stop)) {
					return
				}
				w := NewWorld(first + uint64(i))
				if *stepsFlag {
					w.Trace = func(s string) { fmt.Fprintln(os.Stderr, s) }
				}
				results[i] = w.Run()
				if len(results[i].Violations) > 0 {
					bad.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return results
}

// TestReplay: the same seed gives the same run.
func TestReplay(t *testing.T) {
	for seed := range uint64(5) {
		a, b := NewWorld(seed).Run(), NewWorld(seed).Run()
		if fmt.Sprint(a) != fmt.Sprint(b) {
			t.Fatalf("seed %d: %v, then %v", seed, a, b)
		}
	}
}
