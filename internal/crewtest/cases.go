package crewtest

import (
	"errors"
	"slices"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/gateway/desk"
	"github.com/skein-project/skein/scheduler/stream"
)

// holders: a later holder is told all, and of an earlier one nothing counts.
func holders(t *testing.T, c *Crew) {
	h := c.Hold(t, "n1", 9).Welcomed()
	var seats []desk.Seat
	for i := range 3 {
		s, _ := attach(t, c.Doors[i%2], Attaching(i))
		seats = append(seats, s)
		h.joins(i)
	}
	h.Give(ID(1), jobA, 1, 1, 2, 3)
	c.chunks(t, ID(1), jobA, refs(jobA, 1, 4)...)
	complete(t, seats[1], desk.Taken, ref(jobA, 2))
	h.result(ref(jobA, 2))

	next := c.Hold(t, "n2", 10).Welcomed()
	joined := map[cluster.NodeID]stream.Join{}
	for len(joined) < 3 {
		f := next.Hear()
		switch {
		case f.Join != nil:
			joined[f.Worker] = *f.Join
		case f.Result == nil || f.Result.Attempt != ref(jobA, 2) || joined[f.Worker].Session == 0:
			t.Fatalf("%+v", f)
		}
	}
	same(t, "has", joined[ID(1)].Assigned, []job.Attempt{ref(jobA, 1), ref(jobA, 3)})
	if _, kept := next.has(ID(1)); !slices.Equal(kept, refs(jobA, 2, 3)) {
		t.Errorf("keeps %v", kept)
	}
	h.Give(ID(0), jobB, 2, 1)
	h.Refused()
	if has, _ := next.has(ID(0)); len(has) != 0 {
		t.Errorf("an earlier holder gave %v", has)
	}
	c.Silent(t, ID(0))
	c.Hold(t, "n1", 9).Refused()
	c.Hold(t, "n3", 10).Refused()
	next.Give(ID(0), jobB, 1, 1)
	c.chunks(t, ID(0), jobB, ref(jobB, 1))
	if st, err := seats[0].Assigned(); err != nil || st.Term != 10 {
		t.Errorf("%+v, %v", st, err)
	}
	again := c.Hold(t, "n2", 10).Welcomed() // its stream broke
	for n := 0; n < 3; {
		if f := again.Hear(); f.Join != nil {
			n++
		}
	}
	later := c.Hold(t, "n2", 11).Welcomed() // it lost the lease, and got it again
	again.Give(ID(2), jobB, 3, 1)
	again.Refused()
	for n := 0; n < 3; {
		if f := later.Hear(); f.Join != nil {
			n++
		}
	}
	if has, _ := later.has(ID(2)); len(has) != 0 {
		t.Errorf("an earlier term gave %v", has)
	}
}

// cancel: what is cancelled is forgotten, its results too, and nothing else.
func cancel(t *testing.T, c *Crew) {
	h := c.Hold(t, "n1", 1).Welcomed()
	s, _ := attach(t, c.Doors[0], Attaching(1))
	h.joins(1)
	h.Give(ID(1), jobA, 1, 1, 2, 3, 4)
	c.chunks(t, ID(1), jobA, refs(jobA, 1, 5)...)
	h.Give(ID(1), jobB, 1, 1)
	c.chunks(t, ID(1), jobB, ref(jobB, 1))
	complete(t, s, desk.Taken, refs(jobA, 1, 3)...)
	h.result(ref(jobA, 1))
	h.result(ref(jobA, 2))
	h.Say(stream.Frame{Worker: ID(1), Cancel: &stream.Cancel{Term: 1, Seq: 2, Job: jobA, Chunks: []job.Attempt{{Chunk: 1, Number: 1}, {Chunk: 3, Number: 1}, {Chunk: 4, Number: 2}}}})
	c.about(t, ID(1), desk.PushStop, ref(jobA, 1), ref(jobA, 3))
	has, kept := h.has(ID(1))
	same(t, "has", has, []job.Attempt{ref(jobA, 4), ref(jobB, 1)})
	same(t, "keeps", kept, refs(jobA, 2, 3))
	h.Say(stream.Frame{Worker: ID(1), Cancel: &stream.Cancel{Term: 1, Seq: 1, Job: jobA}}) // late, and obeyed
	c.about(t, ID(1), desk.PushStop, ref(jobA, 2), ref(jobA, 4))
	has, kept = h.has(ID(1))
	same(t, "has", has, refs(jobB, 1, 2))
	same(t, "keeps", kept, nil)
	h.Say(stream.Frame{Worker: ID(1), Cancel: &stream.Cancel{Term: 1, Seq: 3, Job: jobA}})
	_, _ = h.has(ID(1))
	c.Silent(t, ID(1))
}

// drop: a worker that the holder does not want is detached, unless it has attached anew.
func drop(t *testing.T, c *Crew) {
	h := c.Hold(t, "n1", 1).Welcomed()
	s, st := attach(t, c.Doors[0], Attaching(1))
	h.joins(1)
	h.Say(stream.Frame{Worker: ID(1), Drop: &stream.Drop{Term: 1, Session: st.Session - 1, Reason: stream.DropFlood}})
	if _, err := s.Assigned(); err != nil {
		t.Error(err)
	}
	_, _ = h.has(ID(1))
	c.Silent(t, ID(1))
	h.Say(stream.Frame{Worker: ID(1), Drop: &stream.Drop{Term: 1, Session: st.Session + 1<<30, Reason: stream.DropOffence}})
	if p := c.Await(t, ID(1)); p.Kind != desk.PushGone || p.Reason != stream.DropOffence || p.After != st.Session+1<<30 || p.Session != st.Session {
		t.Errorf("%+v", p)
	}
	if _, err := s.Assigned(); !errors.Is(err, desk.ErrUnknown) {
		t.Errorf("%v", err)
	}
	attach(t, c.Doors[0], Attaching(2))
	h.joins(2)
	h.Say(stream.Frame{Worker: ID(1), Drop: &stream.Drop{Term: 1, Session: st.Session, Reason: stream.DropOffence}}) // nobody
	_, _ = h.has(ID(2))                                                                                              // that is done before anybody is there again
	attach(t, c.Doors[0], Attaching(1))
	h.joins(1)
	c.Silent(t, ID(1))
}

// leave: who says goodbye gives back what it has, and keeps what it has done until that is
// settled; who is lost keeps both for a while.
func leave(t *testing.T, c *Crew) {
	h := c.Hold(t, "n1", 1).Welcomed()
	parts := func(i int, session uint64, gone bool) {
		t.Helper()
		f := h.Hear()
		if f.Part == nil || f.Worker != ID(i) || f.Part.Session != session || f.Part.Gone != gone {
			t.Fatalf("%+v, want the part of worker %d", f, i)
		}
	}
	s, st := attach(t, c.Doors[0], Attaching(1))
	h.joins(1)
	h.Give(ID(1), jobA, 1, 1, 2)
	c.chunks(t, ID(1), jobA, refs(jobA, 1, 3)...)
	complete(t, s, desk.Taken, ref(jobA, 1))
	h.result(ref(jobA, 1))
	if err := s.Lose(); err != nil {
		t.Fatal(err)
	}
	parts(1, st.Session, false)
	if err := s.Lose(); !errors.Is(err, desk.ErrUnknown) {
		t.Errorf("%v", err)
	}
	if _, err := s.Beat(desk.Beat{}); !errors.Is(err, desk.ErrUnknown) {
		t.Errorf("%v", err)
	}
	a := Attaching(1)
	a.Kept = refs(jobA, 1, 2)
	s, st = attach(t, c.Doors[1], a)
	if len(st.Chunks) != 1 {
		t.Errorf("%+v", st)
	}
	if j := h.joins(1); !slices.Equal(j.Assigned, refs(jobA, 2, 3)) {
		t.Errorf("%+v", j)
	}
	h.result(ref(jobA, 1)) // it is told again
	if err := s.Bye(); err != nil {
		t.Fatal(err)
	}
	parts(1, st.Session, true)
	has, kept := h.has(ID(1))
	same(t, "has", has, nil)
	same(t, "keeps", kept, refs(jobA, 1, 2))
	next := c.Hold(t, "n2", 2).Welcomed() // hears of who has only results
	if f := next.Hear(); f.Join == nil || len(f.Join.Assigned) != 0 {
		t.Fatalf("%+v", f)
	}
	next.result(ref(jobA, 1))
	if f := next.Hear(); f.Part == nil || !f.Part.Gone {
		t.Fatalf("%+v", f)
	}
	next.Say(stream.Frame{Worker: ID(1), Accepted: &stream.Accepted{Term: 2, Refs: refs(jobA, 1, 2)}})
	s2, st2 := attach(t, c.Doors[0], Attaching(2))
	next.joins(2)
	if err := s2.Bye(); err != nil {
		t.Fatal(err)
	}
	if f := next.Hear(); f.Part == nil || f.Part.Session != st2.Session || !f.Part.Gone {
		t.Fatalf("%+v", f)
	}
	c.Silent(t, ID(1))
	last := c.Hold(t, "n1", 3).Welcomed()
	_, _ = attach(t, c.Doors[0], Attaching(3))
	last.joins(3) // and of the others there is nothing left
	last.Give(ID(2), jobA, 9, 1)
	_, _ = last.has(ID(3))
	if _, st := attach(t, c.Doors[0], Attaching(2)); len(st.Chunks) != 0 {
		t.Errorf("who was not there was given %+v", st)
	}
	if j := last.joins(2); len(j.Assigned) != 0 {
		t.Errorf("%+v", j)
	}
}

// room: more than a worker may have comes back.
func room(t *testing.T, c *Crew) {
	h := c.Hold(t, "n1", 1).Welcomed()
	attach(t, c.Doors[0], Attaching(1))
	h.joins(1)
	var most []int
	for i := range desk.MaxRefs {
		most = append(most, i)
	}
	h.Give(ID(1), jobA, 1, most[:200]...)
	c.chunks(t, ID(1), jobA, refs(jobA, 0, 200)...)
	h.Give(ID(1), jobA, 2, most[200:]...)
	c.chunks(t, ID(1), jobA, refs(jobA, 200, desk.MaxRefs)...)
	h.Give(ID(1), jobB, 1, 1)
	f := h.Hear()
	if f.Result == nil || f.Result.Attempt != ref(jobB, 1) || f.Result.Class != job.HandedBack || f.Result.Error == "" {
		t.Fatalf("%+v", f)
	}
	c.Silent(t, ID(1))
}

// again: a command that is repeated has no effect, and one for what is done tells that again.
func again(t *testing.T, c *Crew) {
	h := c.Hold(t, "n1", 1).Welcomed()
	s, _ := attach(t, c.Doors[0], Attaching(1))
	h.joins(1)
	h.Give(ID(1), jobA, 5, 1, 2)
	c.chunks(t, ID(1), jobA, refs(jobA, 1, 3)...)
	h.Give(ID(1), jobA, 5, 1, 2)
	h.Give(ID(1), jobA, 4, 3) // late
	has, _ := h.has(ID(1))
	same(t, "has", has, refs(jobA, 1, 3))
	complete(t, s, desk.Taken, ref(jobA, 1))
	h.result(ref(jobA, 1))
	h.Give(ID(1), jobA, 5, 1, 2)
	h.result(ref(jobA, 1))
	h.Say(stream.Frame{Worker: ID(1), Accepted: &stream.Accepted{Term: 1, Refs: refs(jobA, 1, 2)}})
	c.about(t, ID(1), desk.PushSettled, ref(jobA, 1))
	h.Give(ID(1), jobA, 5, 1, 2) // its fate is known
	has, kept := h.has(ID(1))
	same(t, "has", has, refs(jobA, 2, 3))
	same(t, "keeps", kept, nil)
	c.Silent(t, ID(1))
}

// twice: what one call names twice counts once.
func twice(t *testing.T, c *Crew) {
	h := c.Hold(t, "n1", 1).Welcomed()
	s, _ := attach(t, c.Doors[0], Attaching(1))
	h.joins(1)
	h.Give(ID(1), jobA, 1, 1, 1, 2)
	c.chunks(t, ID(1), jobA, refs(jobA, 1, 3)...)
	got, err := s.Complete([]stream.Result{Result(ref(jobA, 1)), Result(ref(jobA, 1))})
	if err != nil || !slices.Equal(got, []desk.Verdict{desk.Taken, desk.Duplicate}) {
		t.Errorf("%v, %v", got, err)
	}
	h.result(ref(jobA, 1))
	if _, kept := h.has(ID(1)); !slices.Equal(kept, refs(jobA, 1, 2)) {
		t.Errorf("keeps %v", kept)
	}
}

// sharedJob: who is done with its chunks of a job takes nothing from others that have some.
func sharedJob(t *testing.T, c *Crew) {
	h := c.Hold(t, "n1", 1).Welcomed()
	s, _ := attach(t, c.Doors[0], Attaching(1))
	h.joins(1)
	claims := Attaching(2)
	claims.Running = refs(jobA, 5, 6)
	other, _ := attach(t, c.Doors[1], claims)
	h.joins(2)
	h.Give(ID(1), jobA, 1, 1, 2)
	c.chunks(t, ID(1), jobA, refs(jobA, 1, 3)...)
	complete(t, other, desk.Taken, ref(jobA, 5))
	complete(t, s, desk.Taken, ref(jobA, 1))
	st, err := s.Assigned()
	if err != nil || len(st.Chunks) != 1 {
		t.Fatalf("%+v, %v", st, err)
	}
	same(t, "assigned", st.Chunks[0].Refs, refs(jobA, 2, 3))
}

// bad: what no worker says is refused and changes nothing.
func bad(t *testing.T, c *Crew) {
	a := Attaching(1)
	for name, change := range map[string]func(*desk.Attach){
		"no slots": func(a *desk.Attach) { a.Slots = 0 }, "much room": func(a *desk.Attach) { a.Room = 99 }, "a host": func(a *desk.Attach) { a.Worker = "n1" },
		"many": func(a *desk.Attach) { a.Running = refs(jobA, 0, desk.MaxRefs+1) }, "no job": func(a *desk.Attach) { a.Kept = []job.Attempt{{Number: 1}} },
	} {
		a := a
		change(&a)
		if _, _, err := c.Doors[0].Attach(a); !errors.Is(err, desk.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s, _ := attach(t, c.Doors[0], a)
	long := Result(ref(jobA, 1))
	long.Result.Iterations = 0
	long.Result, long.Error = nil, ""
	for name, err := range map[string]error{
		"kept": errOf(s.Beat(desk.Beat{Kept: -1})), "have": errOf(s.Beat(desk.Beat{Have: []desk.Progress{{}}})),
		"results": errOf(s.Complete(make([]stream.Result, desk.MaxResults+1))), "neither": errOf(s.Complete([]stream.Result{long})),
	} {
		if !errors.Is(err, desk.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// full: one worker has a quarter of the room for results, and all have no more than it.
func full(t *testing.T, c *Crew) {
	h := c.Hold(t, "n1", 1).Welcomed()
	var seats []desk.Seat
	for i := range 6 {
		s, _ := attach(t, c.Doors[0], Attaching(i))
		seats = append(seats, s)
		h.joins(i)
		h.Give(ID(i), jobA, uint64(i+1), i*10, i*10+1)
		c.chunks(t, ID(i), jobA, refs(jobA, i*10, i*10+2)...)
	}
	taken := 0
	for i, s := range seats {
		for k := range 2 {
			switch _, err := s.Complete([]stream.Result{Result(ref(jobA, i*10+k))}); {
			case err == nil:
				taken++
			case !errors.Is(err, desk.ErrBusy):
				t.Error(err)
			case k == 0 && i == 0:
				t.Error("the first result has no room")
			}
			if k == 1 && i == 0 && taken != 1 {
				t.Error("a worker has more than a quarter")
			}
		}
	}
	if taken < 3 || taken > 4 {
		t.Errorf("%d results were taken", taken)
	}
	for range taken {
		f := h.Hear()
		if f.Result == nil {
			t.Fatalf("%+v", f)
		}
		h.Say(stream.Frame{Worker: f.Worker, Accepted: &stream.Accepted{Term: 1, Refs: []job.Attempt{f.Result.Attempt}}})
		c.about(t, f.Worker, desk.PushSettled, f.Result.Attempt)
	}
	if has, _ := h.has(ID(5)); len(has) != 2 {
		t.Errorf("what was refused is gone: %v", has)
	}
	complete(t, seats[5], desk.Taken, ref(jobA, 50)) // there is room again
	h.result(ref(jobA, 50))
}
