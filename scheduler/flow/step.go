package flow

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
)

// Event is what a Machine is told.
type Event interface {
	isEvent()
	fmt.Stringer
}

// Events.
type (
	// Begin is the first: go on from what the log says.
	Begin struct{}
	// Tick says that time goes by.
	Tick struct{}
	// JobEnded says how the job of a try ended.
	JobEnded struct {
		Name
		State  job.State
		Reason string
		Result *job.Result      // nil: it has none
		Left   []job.OutputFile // by its chunks
	}
	// Located says which of the files of a try are on no host any more.
	Located struct {
		Name
		Lost []cluster.Hash
	}
	// Assembled says that the config document of a try is where its job needs it.
	Assembled struct {
		Name
		Config cluster.Hash
	}
	// Refused says that what was asked for a try cannot be done for some time.
	Refused struct {
		Name
		After time.Duration
	}
	// JobHeld says that the job of a try waits, as all that is open of it was given up: it
	// would end so.
	JobHeld struct {
		Name
		State  job.State
		Reason string
	}
	// Gone says that nobody can go on with the job any more with which a try was to.
	Gone struct{ Name }
	// Values are what the provider of a try left, by the names of the files.
	Values struct {
		Name
		Values map[string][]byte
		Lost   bool // they are on no host any more
	}
	// Rejected says that what was asked for a try can never be done.
	Rejected struct {
		Name
		Reason string
	}
	// Stopped says that somebody wants the run to end, with Now its teardown as well.
	Stopped struct {
		Now    bool
		Reason string
	}
)

// Name names a try at an instance of a step.
type Name struct {
	Step     string
	Index    int
	Try      int
	Provider bool // of the try, not its own job
}

// String returns "step[index]#try".
func (n Name) String() string {
	of := fmt.Sprintf("%s[%d]#%d", n.Step, n.Index, n.Try)
	if n.Provider {
		of = "provider of " + of
	}
	return of
}

// Action is what a Machine asks for.
type Action interface {
	isAction()
	fmt.Stringer
}

// Actions.
type (
	// Locate wants to know whether files are still there, which Located or Refused
	// answers.
	Locate struct {
		Name
		Files []cluster.Hash
		Fresh bool // a moment ago is too long ago
	}
	// Assemble wants a config document stored, which Assembled or Refused answers.
	Assemble struct {
		Name
		Doc []byte
	}
	// Start wants a job submitted, and then logged as started. Refused or Rejected
	// answers if it is not.
	Start struct {
		Name
		Round int
		Spec  job.Spec
		Part  *Part // of a job that the spec is of, which alone is to be computed; nil: all. Gone answers if that job is not known
	}
	// GoOn wants what was given up of a job of an earlier try tried again, if it has not
	// ended, and that logged as the start of this one. Gone answers if that cannot be.
	GoOn struct {
		Name
		Round int
		Job   job.ID
		// Partial says that it may have ended in part. One that ended otherwise is Gone, unless it
		// completed.
		Partial bool
	}
	// Conclude wants a job that waits to end.
	Conclude struct {
		Name
		Job job.ID
	}
	// Await wants to know how a job ends that was started before.
	Await struct {
		Name
		Job job.ID
	}
	// Read wants to know what is in files, which Values or Refused answers.
	Read struct {
		Name
		Files []job.OutputFile
	}
	// StopJob wants a job of the run stopped.
	StopJob struct {
		Name
		Job job.ID
	}
	// End is how a try ended, to be logged.
	End struct {
		Name
		Round    int
		State    flow.State
		Reason   string
		Final    bool // another try would fail as well
		Lost     bool // for want of files: that is no failure of its own
		Kept     bool // another try goes on with the same job
		Disputed bool // chunks of its job have results that differ
		Outputs  map[string]json.RawMessage

		waits bool // the job has not ended
	}
	// Stop begins to end the run, to be logged.
	Stop struct {
		Round  int
		Cause  flow.Cause
		Reason string
		Now    bool
	}
	// Finish ends the run, to be logged.
	Finish struct {
		Round  int
		State  flow.State
		Reason string
	}
)

func (Begin) isEvent()     {}
func (Tick) isEvent()      {}
func (JobEnded) isEvent()  {}
func (Located) isEvent()   {}
func (Assembled) isEvent() {}
func (Refused) isEvent()   {}
func (JobHeld) isEvent()   {}
func (Gone) isEvent()      {}
func (Values) isEvent()    {}
func (Rejected) isEvent()  {}
func (Stopped) isEvent()   {}

func (Locate) isAction()   {}
func (Assemble) isAction() {}
func (Start) isAction()    {}
func (GoOn) isAction()     {}
func (Conclude) isAction() {}
func (Await) isAction()    {}
func (Read) isAction()     {}
func (StopJob) isAction()  {}
func (End) isAction()      {}
func (Stop) isAction()     {}
func (Finish) isAction()   {}

// String names an event, as the next ones do.
func (Begin) String() string       { return "begin" }
func (Tick) String() string        { return "tick" }
func (e JobEnded) String() string  { return fmt.Sprintf("job of %s ended %s", e.Name, e.State) }
func (e Located) String() string   { return fmt.Sprintf("%s: %d files lost", e.Name, len(e.Lost)) }
func (e Assembled) String() string { return fmt.Sprintf("%s assembled", e.Name) }
func (e Refused) String() string   { return fmt.Sprintf("%s refused for %s", e.Name, e.After) }
func (e JobHeld) String() string   { return fmt.Sprintf("job of %s waits: %s", e.Name, e.Reason) }
func (e Gone) String() string      { return fmt.Sprintf("job of %s is gone", e.Name) }
func (e Values) String() string {
	return fmt.Sprintf("%s: %d values, lost %t", e.Name, len(e.Values), e.Lost)
}
func (e Rejected) String() string { return fmt.Sprintf("%s rejected: %s", e.Name, e.Reason) }
func (e Stopped) String() string  { return fmt.Sprintf("stopped, now %t", e.Now) }

// String names an action, as the next ones do.
func (a Locate) String() string   { return fmt.Sprintf("locate %d files of %s", len(a.Files), a.Name) }
func (a Assemble) String() string { return fmt.Sprintf("assemble %s", a.Name) }
func (a Start) String() string    { return fmt.Sprintf("start %s", a.Name) }
func (a GoOn) String() string     { return fmt.Sprintf("go on with %s", a.Name) }
func (a Conclude) String() string { return fmt.Sprintf("conclude %s", a.Name) }
func (a Await) String() string    { return fmt.Sprintf("await %s", a.Name) }
func (a Read) String() string     { return fmt.Sprintf("read %d files of %s", len(a.Files), a.Name) }
func (a StopJob) String() string  { return fmt.Sprintf("stop job of %s", a.Name) }
func (a End) String() string      { return fmt.Sprintf("end %s %s", a.Name, a.State) }
func (a Stop) String() string     { return fmt.Sprintf("stop %s", a.Cause) }
func (a Finish) String() string   { return fmt.Sprintf("finish %s", a.State) }
