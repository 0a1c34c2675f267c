package tui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
)

// Verb is what an Action does.
type Verb string

// Verbs, as they are typed after the colon.
const (
	StepDown Verb = "step-down"
	Drain    Verb = "drain"
	Undrain  Verb = "undrain"
	Stop     Verb = "stop"
	StopLoad Verb = "stop-load"
)

// Action is a change that was asked for and confirmed.
type Action struct {
	Verb   Verb
	Target string // host, or id of a job or load test
	// Name is what was typed to confirm it.
	Name string
}

// consequence says what it does.
func (a Action) consequence() string {
	switch a.Verb {
	case StepDown:
		return a.Name + " hands its lease over"
	case Drain:
		return a.Name + " begins no more chunks"
	case Undrain:
		return a.Name + " begins chunks again"
	}
	if a.Verb == StopLoad {
		return "load test " + a.Name + " ends"
	}
	return "job " + a.Name + " ends"
}

// actionOf reads a command; what it names must be there.
func (w *watched) actionOf(line string) (Action, error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return Action{}, fmt.Errorf("nothing was typed")
	}
	a := Action{Verb: Verb(words[0])}
	want := map[Verb]int{StepDown: 1, Drain: 2, Undrain: 2, Stop: 2, StopLoad: 2}[a.Verb]
	switch {
	case want == 0:
		return a, fmt.Errorf("no command %.20q: step-down, drain HOST, undrain HOST, stop JOB, stop-load TEST", words[0])
	case len(words) != want && want == 1:
		return a, fmt.Errorf("%s takes no name", a.Verb)
	case len(words) != want:
		return a, fmt.Errorf("%s wants one name", a.Verb)
	case !w.hello.MayChange:
		return a, fmt.Errorf("you may look, and change nothing here")
	}
	switch a.Verb {
	case StepDown:
		s, _ := one[api.Status](w, "status")
		if a.Target = string(s.Lease.Holder); a.Target == "" {
			return a, fmt.Errorf("nobody is known to hold the lease")
		}
	case Drain, Undrain:
		a.Target = words[1]
		if w.rows["members"][a.Target] == nil {
			return a, fmt.Errorf("no host %.32q", a.Target)
		}
	case Stop:
		return w.stop(a, words[1])
	case StopLoad:
		return w.stopLoad(a, words[1])
	}
	a.Name = a.Target
	return a, nil
}

// stop finds the job that is meant by a name, or by the beginning of an id.
func (w *watched) stop(a Action, word string) (Action, error) {
	jobs := slices.DeleteFunc(rowsOf[api.Job](w, "jobs"), func(j api.Job) bool {
		return j.State.Final() || j.Name != word && !strings.HasPrefix(string(j.ID), word)
	})
	switch len(jobs) {
	case 0:
		return a, fmt.Errorf("no job %.32q that is not over", word)
	case 1:
		a.Target, a.Name = string(jobs[0].ID), word
		return a, nil
	}
	return a, fmt.Errorf("%.32q is the beginning of %d jobs", word, len(jobs))
}

// stopLoad finds the load test that is meant by a name, or by the beginning of an id.
func (w *watched) stopLoad(a Action, word string) (Action, error) {
	tests := slices.DeleteFunc(rowsOf[api.WatchedLoad](w, "load"), func(l api.WatchedLoad) bool {
		return l.State == event.LoadEnded || l.Name != word && !strings.HasPrefix(string(l.ID), word)
	})
	switch len(tests) {
	case 0:
		return a, fmt.Errorf("no load test %.32q that is not over", word)
	case 1:
		a.Target, a.Name = string(tests[0].ID), word
		return a, nil
	}
	return a, fmt.Errorf("%.32q is the beginning of %d load tests", word, len(tests))
}
