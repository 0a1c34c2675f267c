package api

import (
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// What an outside worker asks of a gateway: POST /v1/rpc/{method} with its token, or by
// the same names over /v1/realtime. Numbers of 64 bits are decimal strings: a browser's
// numbers have 53.
const (
	RPCAttach   = "attach"   // WorkAttach -> WorkState
	RPCBeat     = "beat"     // WorkBeat -> WorkSeq, every 10 s
	RPCComplete = "complete" // WorkResults -> WorkVerdicts
	RPCAssigned = "assigned" // WorkSession -> WorkState
	RPCBye      = "bye"      // WorkSession -> {}
)

// MaxCall is how long a request over a connection may be; longer ones go by HTTP.
const MaxCall = 48 << 10 // bytes

// WorkConnect is what a client may say of itself when it connects.
type WorkConnect struct {
	Client int `json:"client"` // GatewayClient of its version
}

// WorkAttach begins a session of a worker. An earlier one ends.
type WorkAttach struct {
	Slots       int      `json:"slots"` // 1-64
	Room        int      `json:"room"`  // attempts that it takes in all, at most twice its slots
	MemoryBytes uint64   `json:"memory_bytes,string"`
	Executors   []string `json:"executors"`
	Draining    bool     `json:"draining,omitempty"`
	// Running is what it has, queued or running; of Kept it has results, which it sends
	// after this. Both together name at most 256.
	Running []job.Attempt `json:"running"`
	Kept    []job.Attempt `json:"kept"`
	After   uint64        `json:"after,string"` // of the last WorkPush "replaced"; 0: none
	Client  int           `json:"client"`       // GatewayClient of its version
}

// WorkState is all that a worker is to have. Pushes up to Seq are void.
type WorkState struct {
	Session uint64        `json:"session,string"`
	Seq     uint64        `json:"seq,string"`
	Term    cluster.Term  `json:"term,string"` // of the holder; 0: none is known
	Chunks  []WorkChunks  `json:"chunks"`
	Stop    []job.Attempt `json:"stop"` // of what it told
}

// WorkChunks is chunks of one job.
type WorkChunks struct {
	Spec WorkSpec      `json:"spec"`
	Refs []job.Attempt `json:"refs"`
}

// WorkSpec is what a worker learns of a job.
type WorkSpec struct {
	Executor       string       `json:"executor"`
	Artefact       cluster.Hash `json:"artefact"`        // at /v1/artefacts
	Config         cluster.Hash `json:"config,omitzero"` // likewise; none: no config
	FirstIteration uint64       `json:"first_iteration,string"`
	Iterations     uint64       `json:"iterations,string"` // of the job
	Chunk          uint64       `json:"chunk,string"`      // iterations of a chunk
	Seed           uint64       `json:"seed,string"`
	MemoryBytes    uint64       `json:"memory_bytes,string"`
	TimeoutSeconds float64      `json:"timeout_seconds"` // of an attempt
	// HardTimeoutSeconds bounds an attempt that shows progress; never less than
	// TimeoutSeconds.
	HardTimeoutSeconds float64 `json:"hard_timeout_seconds"`
}

// WorkSession names a session.
type WorkSession struct {
	Session uint64 `json:"session,string"`
}

// WorkBeat is what a worker says of itself every 10 s. What two beats do not name, it is
// told again.
type WorkBeat struct {
	WorkSession
	Have     []WorkProgress `json:"have"` // queued or running
	Kept     int            `json:"kept"` // results that are not settled
	Ready    bool           `json:"ready"`
	Draining bool           `json:"draining,omitempty"`
}

// WorkProgress is how far an attempt is.
type WorkProgress struct {
	job.Attempt
	Done uint64 `json:"done,string"` // iterations
}

// WorkSeq is the number of the latest push: whoever has not heard it asks for RPCAssigned.
type WorkSeq struct {
	Seq uint64 `json:"seq,string"`
}

// WorkResults are at most 64 results.
type WorkResults struct {
	WorkSession
	Results []WorkResult `json:"results"`
}

// WorkResult is what became of an attempt: an output or an error.
type WorkResult struct {
	job.Attempt
	Seconds float64          `json:"seconds"`
	Output  string           `json:"output,omitempty"` // what the guest wrote, as it is
	Error   string           `json:"error,omitempty"`
	Class   job.FailureClass `json:"class,omitempty"` // of the error
}

// WorkVerdicts says of each result what became of it: "taken", "duplicate", both to be kept
// until they are settled, "invalid", which ends the attempt as a failed one, or "unknown",
// which nobody wants.
type WorkVerdicts struct {
	Verdicts []string `json:"verdicts"`
}

// VerdictInvalid is of a result that is none. The others are package desk's.
const VerdictInvalid = "invalid"

// WorkChannel is where a worker hears its pushes, before its id.
const WorkChannel = "node:"

// WorkPush is what a worker is told unasked.
type WorkPush struct {
	V       int          `json:"v"`    // 1
	Type    string       `json:"type"` // chunk, stop, settled or replaced
	Session uint64       `json:"session,string"`
	Seq     uint64       `json:"seq,string"` // one more than the push before
	Term    cluster.Term `json:"term,string"`
	At      time.Time    `json:"at"`
	Chunks  *WorkChunks  `json:"chunks,omitempty"` // of chunk: run these
	// Refs of stop are to be ended, of settled to be forgotten.
	Refs []job.Attempt `json:"refs,omitempty"`
	// Of replaced: why the session is over. With some reasons the worker attaches again,
	// with a session after After.
	Reason string `json:"reason,omitempty"`
	After  uint64 `json:"after,string,omitempty"`
}
