package gang

import (
	"errors"
	"fmt"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/stat"
)

// Bounds of what hosts say to each other.
const (
	MaxTargets   = 64
	MaxExtracted = 64
	MaxErrors    = 64
	MaxFrames    = 1 << 20 // bytes in one answer
	MaxWait      = 2 * time.Second
	MaxFence     = time.Minute
	MaxSlew      = time.Minute // in a day, clocks that are 0.05 % apart
)

// Target is where requests of a run go.
type Target struct {
	Name string `json:"name"`
	Port uint16 `json:"port"`
}

func (t Target) String() string { return fmt.Sprintf("%s:%d", t.Name, t.Port) }

// Targets lists where the requests of a plan go, as far as that is known before they are
// filled.
func Targets(p *load.Plan) []Target {
	var out []Target
	seen := map[Target]bool{}
	for _, st := range p.Steps {
		t := Target{st.Origin.Name, st.Origin.Port}
		if !st.Dynamic && !seen[t] && len(out) < MaxTargets {
			seen[t] = true
			out = append(out, t)
		}
	}
	return out
}

// Wanted asks a host whether it may take part.
type Wanted struct {
	Run     event.LoadID `json:"run"`
	Owner   string       `json:"owner"`
	Targets []Target     `json:"targets"`
}

// Check reports what is wrong with the request.
func (w Wanted) Check() error {
	if _, err := event.ParseLoadID(string(w.Run)); err != nil {
		return err
	}
	if len(w.Owner) > cluster.MaxPrincipal || len(w.Targets) > MaxTargets {
		return errors.New("too many targets, or an owner that is too long")
	}
	return nil
}

// Offer is what a host allows.
type Offer struct {
	Why      string  `json:"why,omitempty"` // it takes no part; none: it may
	MaxRate  float64 `json:"max_rate,omitempty"`
	MaxUsers int     `json:"max_users,omitempty"`
	MaxRamp  float64 `json:"max_ramp,omitempty"` // requests a second more with each second
	// MaxConnections, at a time, of what this host allows least of.
	MaxConnections int          `json:"max_connections,omitempty"`
	Busy           event.LoadID `json:"busy,omitempty"` // the run that it is held for
}

// Prepare has a host make ready for its slice. Asked again it says how far that is; a
// higher attempt takes the place of a lower one that has not begun.
type Prepare struct {
	Run     event.LoadID `json:"run"`
	Attempt uint64       `json:"attempt"` // the term of the holder that asks
	Owner   string       `json:"owner"`
	Bundle  cluster.Hash `json:"bundle"`
	Shares  []int        `json:"shares"`
	Index   int          `json:"index"`
	Seed    uint64       `json:"seed"`
	// Fence is for how long the slice sends while no holder has heard what it counts, in
	// milliseconds; 0: until it ends. Others do its part after a longer time.
	Fence int `json:"fence_ms,omitempty"`
}

// Check reports what is wrong with the request.
func (p Prepare) Check() error {
	if _, err := event.ParseLoadID(string(p.Run)); err != nil {
		return err
	}
	if p.Index < 0 || p.Index >= len(p.Shares) || len(p.Shares) > event.MaxLoadHosts || p.Bundle.IsZero() || len(p.Owner) > cluster.MaxPrincipal {
		return errors.New("a slice that is none, or without a bundle")
	}
	if p.Fence < 0 || p.Fence > int(MaxFence/time.Millisecond) {
		return fmt.Errorf("fence_ms is %d, want 0-%d", p.Fence, MaxFence/time.Millisecond)
	}
	for _, s := range p.Shares {
		if s < 1 || s > event.MaxLoadShare {
			return fmt.Errorf("a share of %d, want 1-%d", s, event.MaxLoadShare)
		}
	}
	return nil
}

// Prepared says how far a host is.
type Prepared struct {
	Ready bool `json:"ready,omitempty"`
	// Waits says for what it waits.
	Waits     string   `json:"waits,omitempty"`
	Extracted [][]byte `json:"extracted,omitempty"` // by setup, which slice 0 goes through
}

// Named names a run, for what needs no more.
type Named struct {
	Run event.LoadID `json:"run"`
}

// Check reports what is wrong with the request.
func (n Named) Check() error {
	_, err := event.ParseLoadID(string(n.Run))
	return err
}

// Clock is that of a host, which no change of its time of day moves.
type Clock struct {
	Now int64 `json:"now"` // nanoseconds
}

// Start has a slice that is ready begin at an instant of its host's clock.
type Start struct {
	Run       event.LoadID `json:"run"`
	Attempt   uint64       `json:"attempt"`
	At        int64        `json:"at"`
	Extracted [][]byte     `json:"extracted,omitempty"`
}

// Check reports what is wrong with the request.
func (s Start) Check() error {
	if len(s.Extracted) > MaxExtracted {
		return fmt.Errorf("%d values are extracted, at most %d are allowed", len(s.Extracted), MaxExtracted)
	}
	return Named{s.Run}.Check()
}

// End has a slice end: nothing more begins, and what is under way has a moment. With Drop
// what it counted is not needed any more.
type End struct {
	Run  event.LoadID `json:"run"`
	Drop bool         `json:"drop,omitempty"`
}

// Check reports what is wrong with the request.
func (e End) Check() error { return Named{e.Run}.Check() }

// Ask asks for what a slice has counted, from a frame on; it is answered when there is
// something new, or after a while.
type Ask struct {
	Run   event.LoadID `json:"run"`
	After uint64       `json:"after"`
	Wait  int          `json:"wait_ms"`
	// Slew is by how much the windows of the host are to end later than its clock says, in
	// nanoseconds: its clock is that much ahead of where it was. It comes there slowly.
	Slew int64 `json:"slew_ns,omitempty"`
}

// Check reports what is wrong with the request.
func (a Ask) Check() error {
	if a.Wait < 0 || a.Wait > int(MaxWait/time.Millisecond) {
		return fmt.Errorf("wait_ms is %d, want 0-%d", a.Wait, MaxWait/time.Millisecond)
	}
	if a.Slew < -int64(MaxSlew) || a.Slew > int64(MaxSlew) {
		return fmt.Errorf("slew_ns is %d, want up to %d either way", a.Slew, int64(MaxSlew))
	}
	return Named{a.Run}.Check()
}

// Stage is how far a slice is.
type Stage string

// Stages of a slice.
const (
	Unknown   Stage = "unknown" // the host knows nothing of it
	Preparing Stage = "preparing"
	Ready     Stage = "ready"
	Armed     Stage = "armed" // it knows when to begin
	Running   Stage = "running"
	Done      Stage = "done"
	Broken    Stage = "broken" // it ended without a result of its own
)

// Counted is what a slice has counted.
type Counted struct {
	Stage  Stage        `json:"stage"`
	Frames []stat.Frame `json:"frames,omitempty"`
	// Again: the frame that was asked for is a part of another by now, begin from 0.
	Again bool   `json:"again,omitempty"`
	End   *Ended `json:"end,omitempty"` // with Done
	// Extracted is that of Prepared, where Wait is 0: for a holder that has not prepared it.
	Extracted [][]byte `json:"extracted,omitempty"`
	// Begins is the instant at which it begins by its host's clock; 0: it was not told.
	Begins int64  `json:"begins,omitempty"`
	Why    string `json:"why,omitempty"` // with Broken
	// Redeal is the last that it was told of; nil: none.
	Redeal *Redeal `json:"redeal,omitempty"`
	// Heard and Now are when this was asked for and said by the host's clock.
	Heard int64 `json:"heard,omitempty"`
	Now   int64 `json:"now,omitempty"`
}

// Ended is what a slice says of itself in the end.
type Ended struct {
	Why     string    `json:"why,omitempty"` // it ended before its time
	Stopped bool      `json:"stopped,omitempty"`
	CPU     float64   `json:"cpu"`
	Gap     float64   `json:"gap_seconds"`
	Slowed  string    `json:"slowed,omitempty"`
	When    stat.When `json:"when"`
	Errors  []Failure `json:"errors,omitempty"`
	Notes   []string  `json:"notes,omitempty"`
}

// Failure is how a class of errors looked the first time.
type Failure struct {
	Step  string     `json:"step"`
	Class load.Class `json:"class"`
	Text  string     `json:"text"`
}
