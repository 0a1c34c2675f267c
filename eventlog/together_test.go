package eventlog

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// slowDisk is a file system of which each sync takes so long.
func slowDisk(took time.Duration) *faultFS {
	fs := quickFS()
	fs.took = took
	return fs
}

// together starts three voters, a's disk and the others' being so fast, and returns a.
func together(t *testing.T, own, others time.Duration) *Log {
	net := newNetwork(t)
	for _, id := range []cluster.NodeID{"c", "b", "a"} {
		o := testOptions(t.TempDir(), id)
		o.FS = slowDisk(others)
		if id == "a" {
			o.FS = slowDisk(own)
		}
		net.join(t, o).SetVoters(voters("a", "b", "c"))
	}
	return net.logs["a"]
}

// commit appends an event and waits until it is stable.
func commit(t *testing.T, l *Log) {
	e, err := l.Append(context.Background(), []event.Draft{draft300()})
	if err == nil {
		_, err = l.WaitStable(context.Background(), e[0].Seq)
	}
	if err != nil {
		t.Error(err)
	}
}

// TestCallersGoTogether: who waits until events are stable, and then appends the next,
// shares one group with all who do so, and the way to a majority with it.
func TestCallersGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := together(t, 100*time.Microsecond, 300*time.Microsecond)
		commit(t, a)
		before := metric(t, a, "commit_groups_total")
		const callers, rounds = 32, 40
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range rounds {
					commit(t, a)
				}
			})
		}
		wg.Wait()
		// The first come one by one, and so do the last.
		if n := metric(t, a, "commit_groups_total") - before; n > rounds+10 {
			t.Errorf("%d rounds of %d callers took %.0f groups", rounds, callers, n)
		}
	})
}

// TestAppendWaitsForNoFarMajority: while many wait for a majority that is far, who does
// not is held up for a moment now and then, not each time.
func TestAppendWaitsForNoFarMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const own, far, appends = 100 * time.Microsecond, 50 * time.Millisecond, 4 * (gatherNot + 1)
		a := together(t, own, far)
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for range 32 {
			wg.Go(func() {
				for ctx.Err() == nil {
					commit(t, a)
				}
			})
		}
		time.Sleep(time.Second)
		began := time.Now()
		for range appends {
			mustAppend(t, a, note(1))
		}
		if took, most := time.Since(began), appends*3*own+5*togetherMax; took > most {
			t.Errorf("%d appends took %s, at most %s are due", appends, took, most)
		}
		cancel()
		wg.Wait()
	})
}
