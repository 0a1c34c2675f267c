package jobs

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// spread is a map chunk by chunk.
func spread(m Map) (list []string) {
	for _, r := range m.Runs {
		list = append(list, slices.Repeat([]string{r.State}, r.Count)...)
	}
	return list
}

// TestMapRuns holds maps of random chunks against their list.
func TestMapRuns(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		states := make([]mapState, 1+rng.IntN(300))
		for i := range states {
			states[i] = mapState(rng.IntN(1 + rng.IntN(len(mapNames))))
			if i > 0 && rng.IntN(3) > 0 {
				states[i] = states[i-1]
			}
		}
		most := 1 + rng.IntN(100)
		m := mapOf(states, most)
		if len(m.Runs) > most {
			t.Fatalf("%d runs, at most %d", len(m.Runs), most)
		}
		for i := 1; i < len(m.Runs); i++ {
			if m.Runs[i].State == m.Runs[i-1].State || m.Runs[i].Count == 0 {
				t.Fatalf("runs %v", m.Runs)
			}
		}
		naive := func(step int) (list []string) {
			for i := range states {
				first := i - i%step
				list = append(list, mapNames[slices.Max(states[first:min(first+step, len(states))])])
			}
			return list
		}
		if got := spread(m); !slices.Equal(got, naive(m.Step)) {
			t.Fatalf("step %d: %v of %v", m.Step, got, naive(1))
		}
		if m.Step > 1 {
			finer := naive(m.Step / 2)
			if len(slices.Compact(finer)) <= most {
				t.Fatalf("step %d, though half of it makes few enough runs", m.Step)
			}
		}
	}
}

// TestMapCounts: the map of a job that lives through random events says of as many
// chunks what the job counts.
func TestMapCounts(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range 200 {
		w := &writer{}
		f := New()
		f.Apply(w.submit("j", 60, 10))
		for range rng.IntN(40) {
			f.Apply(w.chunkEvent(rng))
			m, ok := f.Map("j", 100)
			j, _ := f.Job("j")
			count := map[string]int{}
			for _, s := range spread(m) {
				count[s]++
			}
			got := ChunkCounts{
				Pending: count["pending"], Assigned: count["assigned"], Accepted: count["accepted"],
				Failed: count["failed"] + count["parked"], Parked: count["parked"],
			}
			if !ok || got != j.Counts || m.Step != 1 {
				t.Fatalf("the map says %+v, the job %+v", got, j.Counts)
			}
		}
	}
}

// TestMapOfTheEnded: a job with a result for good is told as far as that says it.
func TestMapOfTheEnded(t *testing.T) {
	spans := func(n int) (list []job.Span) {
		for i := range n {
			list = append(list, job.Span{First: 3 * i, Last: 3 * i})
		}
		return list
	}
	for name, c := range map[string]struct {
		r    job.Result
		want []Run
	}{
		"all":       {job.Result{Accepted: 9}, []Run{{"accepted", 9}}},
		"some":      {job.Result{Accepted: 6, Failed: 3, Skipped: spans(3)}, []Run{{"skipped", 1}, {"accepted", 2}, {"skipped", 1}, {"accepted", 2}, {"skipped", 1}, {"accepted", 2}}},
		"too many":  {job.Result{Accepted: 5, Failed: 4, Skipped: spans(2)}, []Run{{"skipped", 1}, {"accepted", 2}, {"skipped", 1}, {"unknown", 5}}},
		"beyond it": {job.Result{Accepted: 9, Skipped: []job.Span{{First: 9, Last: 1 << 40}}}, []Run{{"accepted", 9}}},
	} {
		states := make([]mapState, 9)
		sealedStates(states, &c.r)
		if got := mapOf(states, 100).Runs; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}

	w := &writer{}
	f := New()
	f.Apply(w.submit("j", 60, 10))
	f.Apply(w.event(5, event.KindJobDone, event.JobDone{Job: "j", State: job.Cancelled}))
	if m, _ := f.Map("j", 100); fmt.Sprint(m) != "{1 [{skipped 6}]}" {
		t.Errorf("cancelled: %v", m)
	}
	if _, ok := f.Map("k", 100); ok {
		t.Error("a map of no job")
	}
}
