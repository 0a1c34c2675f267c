package flow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/skein-project/skein/cluster/job"
)

// Limits of a workflow.
const (
	MaxDefBytes     = 256 << 10 // definition, as JSON
	MaxParamBytes   = 64 << 10  // values of the parameters, as JSON
	MaxSteps        = 256
	MaxEdges        = 2048
	MaxInstances    = 4096  // of one step
	MaxAllInstances = 16384 // of all steps
	MaxParams       = 64
	MaxAxes         = 16       // lists of a matrix
	MaxOutputs      = 32       // of a step
	MaxName         = 64       // bytes of a name
	MaxTemplate     = 64 << 10 // bytes of a text with ${...}
	MaxValueBytes   = 16 << 10 // outputs of one instance, as JSON, but for those of a provider
	MaxGivenBytes   = 1 << 20  // outputs of one instance with a provider
	MaxRunBytes     = 8 << 20  // outputs of all instances that are above MaxValueBytes
	MaxRetries      = 100
	MaxSeconds      = 90 * 24 * 3600.0
	MaxWhenBytes    = 4 << 10

	// DefaultTeardown is for how long the teardown of a run may take, in seconds.
	DefaultTeardown = 600
)

// Def is the definition of a workflow.
type Def struct {
	Name string `json:"name,omitempty"` // for people
	// Params are what a run is given, by name.
	Params map[string]Param `json:"params,omitempty"`
	Steps  []Step           `json:"step"`
	// TimeoutSeconds after its submission the run is stopped, and ends as timeout;
	// none: never. TeardownSeconds is for how long its teardown may take; none: 600.
	TimeoutSeconds  float64 `json:"timeout_seconds,omitempty"`
	TeardownSeconds float64 `json:"teardown_seconds,omitempty"`
	// KeepSeconds is how long a run is known after its end; none: 7 days.
	KeepSeconds float64 `json:"keep_seconds,omitempty"`
	// Quorum is how many steps, but those with a role, must complete: then the others are
	// stopped, and the run is completed; when no longer so many can, it fails. None: all.
	Quorum int `json:"quorum,omitempty"`
	// Concurrency bounds how many runs go on at once.
	Concurrency Concurrency `json:"concurrency,omitzero"`
}

// Param is a value that a run is given.
type Param struct {
	Type    string          `json:"type"`              // text, int, float, bool or list
	Default json.RawMessage `json:"default,omitempty"` // none: each run must say it
}

// Types of parameters.
const (
	TypeText  = "text"
	TypeInt   = "int"
	TypeFloat = "float"
	TypeBool  = "bool"
	TypeList  = "list"
)

// Step is a vertex of the graph: a job, or with each or matrix as many as there are
// items.
type Step struct {
	Name string `json:"name"`
	// Role is setup (before every plain step), teardown (behind all others, whatever
	// became of them) or none.
	Role string `json:"role,omitempty"`
	// After are the steps that must have completed before, AfterFailed those that must
	// have failed, AfterDone those that must have ended.
	After       []string `json:"after,omitempty"`
	AfterFailed []string `json:"after_failed,omitempty"`
	AfterDone   []string `json:"after_done,omitempty"`
	// When is an expression; where it is false the step is skipped.
	When string `json:"when,omitempty"`
	// Each is a list, or "${...}" that is one: the step has an instance for each item.
	// Matrix is the same with an item for each combination of the named lists.
	Each        json.RawMessage            `json:"each,omitempty"`
	Matrix      map[string]json.RawMessage `json:"matrix,omitempty"`
	MaxParallel int                        `json:"max_parallel,omitempty"` // instances at once; none: 512
	// Job is what each instance runs. Its key is the workflow's to choose.
	Job job.Spec `json:"job"`
	// Inputs are values for the job: its config document is then {params, item, inputs}.
	Inputs map[string]json.RawMessage `json:"inputs,omitempty"`
	// Files are outputs of earlier steps that each chunk finds in its directory of files, by
	// the name there: STEP.OUTPUT. Of several files each has a number behind its name.
	Files map[string]string `json:"files,omitempty"`
	// Outputs name what later steps may read, and say where it comes from: aggregate,
	// skipped, metric:NAME.STATISTIC, file:NAME, file:NAME@CHUNK, files:NAME or provider:NAME.
	Outputs map[string]string `json:"outputs,omitempty"`
	// Provider is a job of one chunk that runs when the step's own has ended, on what came out
	// of that, and leaves the outputs whose source is provider:NAME, each as JSON in a file of
	// that name.
	Provider *job.Spec `json:"provider,omitempty"`
	Retry    Retry     `json:"retry,omitzero"`
	// OnFailure is fail (the default), ignore or stop.
	OnFailure string `json:"on_failure,omitempty"`
	// AcceptPartial: a job that ends as partial is no failure.
	AcceptPartial bool `json:"accept_partial,omitempty"`
}

// Retry says how often an instance is tried again.
type Retry struct {
	Times          int      `json:"times,omitempty"`
	BackoffSeconds float64  `json:"backoff_seconds,omitempty"` // between two tries
	On             []string `json:"on,omitempty"`              // failed, timeout, partial; none: all of them
}

// Roles of steps.
const (
	RoleSetup    = "setup"
	RoleTeardown = "teardown"
)

// What the failure of a step means for its run.
const (
	FailureFail   = "fail"   // what follows it is skipped, and the run fails
	FailureIgnore = "ignore" // what follows it goes on, and the run is partial
	FailureStop   = "stop"   // the run is stopped, and fails
)

// ErrInvalid is wrapped by every error about a definition or the parameters of a run.
var ErrInvalid = errors.New("invalid workflow")

// Invalidf returns an error that wraps ErrInvalid.
func Invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// Decode reads a definition from JSON. It refuses fields that it does not know; what
// the fields say is for scheduler/flow to judge.
func Decode(b []byte) (Def, error) {
	if len(b) > MaxDefBytes {
		return Def{}, Invalidf("definition of %d bytes, at most %d are allowed", len(b), MaxDefBytes)
	}
	var d Def
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return Def{}, Invalidf("%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Def{}, Invalidf("more than one definition")
	}
	return d, d.Concurrency.check()
}

// Encode writes a definition as it is logged: equal definitions give equal bytes.
func (d Def) Encode() ([]byte, error) {
	if err := d.Concurrency.check(); err != nil {
		return nil, err
	}
	for i := range d.Steps {
		d.Steps[i].Job = d.Steps[i].Job.WithDefaults()
		if p := d.Steps[i].Provider; p != nil {
			d.Steps[i].Provider = new(p.WithDefaults())
		}
	}
	b, err := json.Marshal(d)
	if err != nil {
		return nil, Invalidf("%s", err)
	}
	if len(b) > MaxDefBytes {
		return nil, Invalidf("definition of %d bytes, at most %d are allowed", len(b), MaxDefBytes)
	}
	return b, nil
}
