package eligible

import (
	"slices"
	"testing"

	"github.com/skein-project/skein/cluster"
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
	if c.Fit(All) != 0 {
		t.Errorf("%d workers fit without a group", c.Fit(All))
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
	if c.Room().Len() != 0 || c.Fit(All) != 1 {
		t.Error("a busy worker is offered work")
	}
	if err := classes.Check(workers[0], here); err == nil {
		t.Error("what is out of place passes")
	}
	classes.Review(workers[0], Standing{})
	if c.Fit(All) != 0 {
		t.Error("who does not serve fits")
	}
	classes.Close(c)
	classes.Close(c)
	if _, fresh := classes.Open(spec, "carol"); !fresh {
		t.Error("a class without jobs is kept")
	}
}

// TestHostsNarrow lets hosts refuse jobs that permit them: two friends' hosts and
// a stranger's job.
func TestHostsNarrow(t *testing.T) {
	classes := NewClasses()
	wasm := []string{job.ExecutorWASM}
	ann := &Worker{Index: 0, Owner: "ann", Executors: wasm, Accept: job.Acceptance{Accept: job.AcceptUser, Names: []string{"bob"}}}
	bob := &Worker{Index: 1, Owner: "bob", Executors: wasm, Accept: job.Acceptance{Accept: job.AcceptGroup, Names: []string{"friends"}}}
	all := &Worker{Index: 2, Owner: "carl", Executors: wasm}
	public := job.Spec{}.WithDefaults()
	shared, _ := classes.Open(public, "ann")
	if again, fresh := classes.Open(public, "eve"); fresh || again != shared {
		t.Error("without narrowing workers two owners have two classes")
	}
	if !classes.Narrow(true) || classes.Narrow(true) {
		t.Error("the first narrowing worker changes the classes, and only that")
	}
	of := map[string]*Class{}
	for _, owner := range []string{"ann", "bob", "eve"} {
		of[owner], _ = classes.Open(public, owner)
	}
	if of["ann"] == of["eve"] {
		t.Error("two owners share a class although a worker narrows")
	}
	if got := classes.SetGroup("friends", []string{"ann"}); len(got) < 3 {
		t.Errorf("a group that a host names touches %d classes", len(got))
	}
	for owner, want := range map[string][]Reason{
		"ann": {"", "", ""}, "bob": {"", "", ""}, "eve": {LacksAccept, LacksAccept, ""},
	} {
		for i, w := range []*Worker{ann, bob, all} {
			if got := classes.Lacks(of[owner], w); got != want[i] || classes.Takes(public, owner, w) != (want[i] == "") || !classes.Began(of[owner], w) {
				t.Errorf("job of %s on the host of %s: %q, want %q", owner, w.Owner, got, want[i])
			}
		}
	}
	got := classes.Foresee(public, "eve", []Candidate{{Worker: ann, Node: "n1"}, {Worker: bob, Node: "n2"}, {Worker: all, Node: "n3"}})
	if want := "1 of 3 workers eligible: n1, n2: its host does not run the jobs of eve"; got.String() != want {
		t.Errorf("%s, want %s", got, want)
	}
	// A host can only narrow: what the job does not permit stays so.
	private := public
	private.Permission.Access = job.AccessOwner
	if classes.Takes(private, "bob", ann) || !classes.Takes(private, "ann", ann) {
		t.Error("a host that accepts a user's jobs runs one that does not admit it")
	}
}

// Strangers get what is for them, and are told apart from those whose word counts.
func TestStrangersStandApart(t *testing.T) {
	classes := NewClasses()
	both := []string{job.ExecutorWASM, "exec:render"}
	workers := []*Worker{
		{Index: 0, Owner: "alice", Executors: both},
		{Index: 1, Owner: "visitor:1", Executors: both, Stranger: true},
		{Index: 2, Owner: "visitor:2", Executors: both, Stranger: true, Established: true},
		{Index: 3, Owner: "alice", Executors: both, Stranger: true},
	}
	open := func(change func(*job.Spec)) *Class {
		spec := job.Spec{}.WithDefaults()
		change(&spec)
		c, _ := classes.Open(spec, "alice")
		for _, w := range workers {
			classes.Enter(c, w, Standing{Serves: true, Open: true, Drain: 1})
		}
		return c
	}
	classes.Narrow(true) // as the plan does while there are strangers
	for name, c := range map[string]struct {
		change         func(*job.Spec)
		all, firm, own int
	}{
		"outside": {func(s *job.Spec) { s.Permission.Outside = true }, 4, 2, 1},
		"public":  {func(*job.Spec) {}, 2, 1, 1},
		"owner":   {func(s *job.Spec) { s.Permission.Access = job.AccessOwner }, 2, 1, 1},
		"program": {func(s *job.Spec) { s.Executor, s.Program, s.Permission.Outside = job.ExecutorExec, "render", true }, 1, 1, 1},
	} {
		got := open(c.change)
		if got.Fit(All) != c.all || got.Fit(Firm) != c.firm || got.Fit(Own) != c.own || got.Room().Len() != c.all || got.RoomOwn().Len() != c.own {
			t.Errorf("%s: %d fit, the word of %d counts, %d are members", name, got.Fit(All), got.Fit(Firm), got.Fit(Own))
		}
		for _, w := range workers {
			if err := classes.Check(w, Standing{Serves: true, Open: true, Drain: 1}); err != nil {
				t.Errorf("%s: worker %d %v", name, w.Index, err)
			}
		}
	}
	c := open(func(s *job.Spec) { s.Permission.Outside = true })
	workers[1].Established = true
	classes.Review(workers[1], Standing{Serves: true, Open: true, Drain: 1})
	if c.Fit(Firm) != 3 || !c.Strange() {
		t.Errorf("the word of %d counts once another has shown enough", c.Fit(Firm))
	}
	for _, w := range workers[1:] {
		classes.Review(w, Standing{})
	}
	if c.Fit(All) != 1 || c.Strange() {
		t.Errorf("%d fit when the strangers went", c.Fit(All))
	}
}

// TestFilesAreForThoseThatKnow: jobs with files go to workers that know what these are,
// and those that leave some where there is room; a worker that is full is so for a while.
func TestFilesAreForThoseThatKnow(t *testing.T) {
	classes := NewClasses()
	wasm := []string{job.ExecutorWASM}
	old, full, good := &Worker{Index: 0, Executors: wasm}, &Worker{Index: 1, Executors: wasm, Files: true, Full: true}, &Worker{Index: 2, Executors: wasm, Files: true}
	for name, c := range map[string]struct {
		policy          job.Policy
		old, full, good Reason
	}{
		"plain":   {job.Policy{}, "", "", ""},
		"none":    {job.Policy{Result: job.ResultNone}, LacksVersion, "", ""},
		"files":   {job.Policy{Files: map[string]cluster.Hash{"f": {1}}}, LacksVersion, "", ""},
		"outputs": {job.Policy{Outputs: []string{"f"}}, LacksVersion, LacksOutputRoom, ""},
	} {
		spec := job.Spec{Policy: c.policy}.WithDefaults()
		class, fresh := classes.Open(spec, "ann")
		if !fresh && name != "none" && name != "files" {
			t.Errorf("%s shares a class", name)
		}
		for w, want := range map[*Worker]Reason{old: c.old, full: c.full, good: c.good} {
			if got := classes.Lacks(class, w); got != want {
				t.Errorf("%s: worker %d lacks %q, want %q", name, w.Index, got, want)
			}
		}
		if !classes.Began(class, full) || classes.Began(class, old) != (c.old == "") {
			t.Errorf("%s: what began does not go on, or goes on where it cannot", name)
		}
	}
	spec := job.Spec{Policy: job.Policy{Outputs: []string{"f"}}}.WithDefaults()
	seen := func(list ...*Worker) (out []Candidate) {
		for _, w := range list {
			out = append(out, Candidate{Worker: w, Node: "n"})
		}
		return out
	}
	if why := classes.Foresee(spec, "ann", seen(old, full)); why.Never || why.Eligible != 0 {
		t.Errorf("a job that waits for room is refused: %s", why)
	}
	if why := classes.Foresee(spec, "ann", seen(old)); !why.Never {
		t.Errorf("a job that nobody knows is taken: %s", why)
	}
}
