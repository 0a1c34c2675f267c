package eligible

import (
	"slices"
	"testing"

	"github.com/skein-project/skein/cluster/job"
)

func TestClassesFollowTheirWorkers(t *testing.T) {
	classes := NewClasses()
	wasm := []string{job.ExecutorWASM}
	workers := []*Worker{
		{Index: 0, Owner: "alice", Zone: "osl", Executors: wasm},
		{Index: 1, Owner: "bob", Zone: "osl", Executors: wasm},
		{Index: 2, Owner: "alice", Zone: "fra", Executors: wasm},
		{Index: 3, Owner: "alice", Zone: "osl", Executors: []string{"exec:render"}},
	}
	here := Standing{Serves: true, Open: true, Drain: 1}
	enter := func(c *Class) {
		for _, w := range workers {
			classes.Enter(c, w, here)
		}
	}
	spec := job.Spec{Policy: job.Policy{Zones: []string{"osl"}, Permission: job.Permission{Access: job.AccessGroup, Groups: []string{"g"}}}}.WithDefaults()
	c, fresh := classes.Open(spec, "carol")
	if !fresh {
		t.Fatal("the first class is not new")
	}
	enter(c)
	if again, fresh := classes.Open(spec, "carol"); fresh || again != c {
		t.Error("the same need has another class")
	}
	if other, fresh := classes.Open(spec, "dave"); !fresh || other == c {
		t.Error("another owner's jobs share the class")
	}
	if c.Fit() != 0 {
		t.Errorf("%d workers fit without a group", c.Fit())
	}
	if got := classes.SetGroup("other", []string{"alice"}); len(got) != 0 {
		t.Errorf("a group that nobody names touches %d classes", len(got))
	}
	if got := classes.SetGroup("g", []string{"alice"}); len(got) != 2 || got[0] != c {
		t.Fatalf("a group of two classes touches %d", len(got))
	}
	enter(c)
	for i, want := range []Reason{"", LacksPermission, LacksZone, LacksExecutor} {
		if got := classes.Lacks(c, workers[i]); got != want || c.Has(int32(i)) != (want == "") {
			t.Errorf("worker %d lacks %q, want %q", i, got, want)
		}
	}
	if got := slices.Collect(c.Room().All); !slices.Equal(got, []int32{0}) {
		t.Errorf("room at %v", got)
	}
	classes.Place(workers[0], Standing{Serves: true})
	if c.Room().Len() != 0 || c.Fit() != 1 {
		t.Error("a busy worker is offered work")
	}
	if err := classes.Check(workers[0], here); err == nil {
		t.Error("what is out of place passes")
	}
	classes.Review(workers[0], Standing{})
	if c.Fit() != 0 {
		t.Error("who does not serve fits")
	}
	classes.Close(c)
	classes.Close(c)
	if _, fresh := classes.Open(spec, "carol"); !fresh {
		t.Error("a class without jobs is kept")
	}
}
