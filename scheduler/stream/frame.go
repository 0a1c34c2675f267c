package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// Proto is the stream protocol's name in the mesh.
const Proto = "skein-work/1"

// MaxFrame is the longest frame, in bytes.
const MaxFrame = 4 << 20

// ErrFrame is wrapped by every decoding error.
var ErrFrame = errors.New("invalid worker frame")

// Frame is one message; exactly one field beside Worker is set.
type Frame struct {
	// Worker is the outside worker that the frame is about, of stream CrewProto alone.
	Worker cluster.NodeID `json:"worker,omitempty"`

	Hello    *Hello    `json:"hello,omitempty"`
	Welcome  *Welcome  `json:"welcome,omitempty"`
	Refused  *Refused  `json:"refused,omitempty"`
	Assign   *Assign   `json:"assign,omitempty"`
	Cancel   *Cancel   `json:"cancel,omitempty"`
	Accepted *Accepted `json:"accepted,omitempty"`
	Query    *Ping     `json:"query,omitempty"`
	Assigned *Assigned `json:"assigned,omitempty"`
	Stopped  *Stopped  `json:"stopped,omitempty"`
	Result   *Result   `json:"result,omitempty"`
	Status   *Status   `json:"status,omitempty"`
	Ping     *Ping     `json:"ping,omitempty"`
	Pong     *Ping     `json:"pong,omitempty"`
	Join     *Join     `json:"join,omitempty"`
	Part     *Part     `json:"part,omitempty"`
	Drop     *Drop     `json:"drop,omitempty"`
}

// Hello opens a stream in Term.
type Hello struct {
	Term   cluster.Term   `json:"term"`
	Holder cluster.NodeID `json:"holder"`
}

// Welcome tells what the worker can do, runs and keeps. Right after it the
// worker sends again each result that it still keeps.
type Welcome struct {
	Slots     int           `json:"slots"`
	Executors []string      `json:"executors"`      // what it runs, as job.Spec.Needs names it
	Assigned  []job.Attempt `json:"assigned"`       // queued or running
	Room      int           `json:"room,omitempty"` // attempts it takes in all; more ends the stream; 0: not told
	Draining  bool          `json:"draining,omitempty"`
	// MemoryBytes is how much an attempt may have; 0, of a worker that does not know
	// this: as much as it asks for, as far as is known.
	MemoryBytes uint64 `json:"memory_bytes,omitempty"`
	// Accept is whose jobs the host runs; nil, of a worker that does not know this:
	// everybody's.
	Accept *job.Acceptance `json:"accept,omitempty"`
	// Crew says that the host serves CrewProto as well.
	Crew bool `json:"crew,omitempty"`
	// Features are what the worker knows beyond what all do: FeatureFiles.
	Features []string `json:"features,omitempty"`
}

// FeatureFiles says that a worker runs jobs with files, outputs or a kind of result.
const FeatureFiles = "files"

// Refused ends a stream: the worker has seen MaxTerm.
type Refused struct {
	MaxTerm cluster.Term `json:"max_term"`
	Reason  string       `json:"reason"`
}

// Assign hands chunks of one job to the worker. Spec is whole, so that a
// worker needs no log to work.
//
// Seq rises with each Assign and Cancel of a term. A worker keeps the highest
// (Term, Seq) of each job: an Assign with the same gets the same answer again,
// a lower one is refused, however late the network delivers it.
type Assign struct {
	Term   cluster.Term  `json:"term"`
	Seq    uint64        `json:"seq,omitempty"` // 0: not ordered
	Job    job.ID        `json:"job"`
	Spec   job.Spec      `json:"spec"`
	Owner  string        `json:"owner,omitempty"` // whose job; empty: the holder does not say
	Chunks []job.Attempt `json:"chunks"`
	// Resume are checkpoints of earlier attempts, from which these may go on: workers that
	// do not know them begin anew.
	Resume []Resume `json:"resume,omitempty"`
}

// Resume is from where an attempt at a chunk may go on.
type Resume struct {
	Chunk int `json:"chunk"`
	job.Checkpoint
}

// Cancel stops attempts and forgets their results; no Chunks means the whole
// job.
type Cancel struct {
	Term   cluster.Term  `json:"term"`
	Seq    uint64        `json:"seq,omitempty"` // see Assign; not 0: asks for Stopped
	Job    job.ID        `json:"job"`
	Chunks []job.Attempt `json:"chunks,omitempty"`
}

// Stopped confirms the Cancel with Seq: nothing that it named is queued or runs
// any more, each process of it has ended.
type Stopped struct {
	Job job.ID `json:"job"`
	Seq uint64 `json:"seq"`
}

// Assigned answers a Query: what the worker has, after every Assign and Cancel
// that came before the Query. An attempt that is in neither list, and whose
// result did not come, is lost.
type Assigned struct {
	Nonce uint64        `json:"nonce"`
	Refs  []job.Attempt `json:"refs"` // queued or running
	Kept  []job.Attempt `json:"kept"` // results not yet accepted
}

// Accepted lists attempts whose fate is stable in the log: the worker drops
// what it keeps of them.
type Accepted struct {
	Term cluster.Term  `json:"term"`
	Refs []job.Attempt `json:"refs"`
}

// Result ends one attempt: either Result or Error is set.
type Result struct {
	job.Attempt
	Result  *job.ChunkResult `json:"result,omitempty"`
	Error   string           `json:"error,omitempty"` // at most cluster.MaxReason bytes
	Class   job.FailureClass `json:"class,omitempty"` // of Error
	Seconds float64          `json:"seconds"`
	Log     cluster.Hash     `json:"log,omitzero"` // with Error: the artefact with what the attempt said; none: there is none
}

// Status reports what the worker is doing, every 2 s, and every 6 s that it still
// has nothing to do: that it comes says that the worker is live, Ready whether it
// takes work, Progress whether it gets on.
type Status struct {
	Running  []job.Attempt `json:"running"`
	Queued   int           `json:"queued"`
	Kept     int           `json:"kept"` // results not yet accepted
	Ready    bool          `json:"ready,omitempty"`
	Draining bool          `json:"draining,omitempty"`
	Progress []Progress    `json:"progress,omitempty"` // of what runs
	// QueueSeconds is how long the first attempt in the queue waits.
	QueueSeconds float64 `json:"queue_seconds,omitempty"`
	// Full says that there is no room for the outputs of a chunk.
	Full bool `json:"full,omitempty"`
	// Pressure is how loaded the host is, as overload.Level: others at normal come first.
	Pressure uint8 `json:"pressure,omitempty"`
}

// Progress is how far a running attempt is. Done never falls; work that does
// not report it stays at 0.
type Progress struct {
	job.Attempt
	Done    uint64  `json:"done"`    // iterations
	Seconds float64 `json:"seconds"` // since it began to run
	Idle    float64 `json:"idle"`    // seconds since Done rose last, or since it began
	// Ask is its latest request for more time; nil: none. Holders that do not know it
	// give none.
	Ask *Ask `json:"ask,omitempty"`
	// Saved is its latest checkpoint; nil: none.
	Saved *job.Checkpoint `json:"saved,omitempty"`
}

// Ask is the request of a running attempt for more time.
type Ask struct {
	Number  int     `json:"number"`           // rises with each of the attempt, from 1
	Seconds float64 `json:"seconds"`          // how much more it wants
	Reason  string  `json:"reason,omitempty"` // at most cluster.MaxReason bytes
}

// Ping asks for a Pong with the same Nonce.
type Ping struct {
	Term  cluster.Term `json:"term,omitempty"`
	Nonce uint64       `json:"nonce"`
}

// Write encodes f by itself, as the first frame of a stream, in one Write call.
func Write(w io.Writer, f Frame) error {
	b, err := new(Encoder).Append(nil, f)
	if err != nil {
		return err
	}
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("write worker frame: %w", err)
	}
	return nil
}

// Read decodes a frame that was encoded by itself, and reads no further. A
// length over MaxFrame is refused before anything is allocated. At the end of
// the stream it returns io.EOF.
func Read(r io.Reader) (Frame, error) {
	n, err := length(r)
	if err != nil {
		return Frame{}, err
	}
	b, err := body(r, n)
	if err != nil {
		return Frame{}, err
	}
	return new(Decoder).decode(b)
}

// body reads n bytes; memory grows with what arrives, not with what is
// promised.
func body(r io.Reader, n int) ([]byte, error) {
	var buf bytes.Buffer
	if _, err := io.CopyN(&buf, r, int64(n)); err != nil {
		return nil, cut(err)
	}
	return buf.Bytes(), nil
}

// Limits of what one frame lists.
const (
	MaxRefs      = 1 << 16
	maxExecutors = 256
	maxName      = 64
	maxReason    = 4 * cluster.MaxReason
	maxSlots     = 4096
)

// Validate checks that exactly one field beside Worker is set and that numbers are in
// range.
func (f Frame) Validate() error {
	set := 0
	for _, on := range []bool{
		f.Hello != nil, f.Welcome != nil, f.Refused != nil, f.Assign != nil, f.Cancel != nil, f.Accepted != nil, f.Query != nil,
		f.Assigned != nil, f.Stopped != nil, f.Result != nil, f.Status != nil, f.Ping != nil, f.Pong != nil,
		f.Join != nil, f.Part != nil, f.Drop != nil,
	} {
		if on {
			set++
		}
	}
	if set != 1 {
		return fmt.Errorf("%w: %d kinds in one frame, want 1", ErrFrame, set)
	}
	switch {
	case f.Hello != nil && (f.Hello.Term == 0 || len(f.Hello.Holder) > maxName):
		return fmt.Errorf("%w: hello without term or with a long name", ErrFrame)
	case f.Welcome != nil:
		return f.Welcome.validate()
	case f.Refused != nil && len(f.Refused.Reason) > maxReason:
		return fmt.Errorf("%w: refused with a reason of %d bytes", ErrFrame, len(f.Refused.Reason))
	case f.Assign != nil:
		return f.Assign.validate()
	case f.Cancel != nil:
		return f.Cancel.validate()
	case f.Accepted != nil && f.Accepted.Term == 0:
		return fmt.Errorf("%w: no term", ErrFrame)
	case f.Accepted != nil:
		return validRefs(f.Accepted.Refs)
	case f.Assigned != nil:
		return errors.Join(validRefs(f.Assigned.Refs), validRefs(f.Assigned.Kept))
	case f.Stopped != nil && (f.Stopped.Seq == 0 || !validJob(f.Stopped.Job)):
		return fmt.Errorf("%w: stopped without job or seq", ErrFrame)
	case f.Result != nil:
		return f.Result.validate()
	case f.Status != nil:
		return f.Status.validate()
	case f.Join != nil:
		return f.Join.validate()
	case f.Part != nil:
		return f.Part.validate()
	case f.Drop != nil:
		return f.Drop.validate()
	}
	return nil
}

func validJob(id job.ID) bool { return id != "" && len(id) <= maxName }

// bare reports that an attempt names neither job nor worker, which stand
// elsewhere in its frame.
func bare(a job.Attempt) bool { return a.Job == "" && a.Worker == "" }

func validAttempt(r job.Attempt) error {
	if !validJob(r.Job) || r.Chunk < 0 || r.Number < 1 || r.Worker != "" {
		return fmt.Errorf("%w: chunk %d attempt %d of job %.*q", ErrFrame, r.Chunk, r.Number, maxName, r.Job)
	}
	return nil
}

func validRefs(refs []job.Attempt) error {
	return atMost(MaxRefs, refs)
}

func atMost(most int, refs []job.Attempt) error {
	if len(refs) > most {
		return fmt.Errorf("%w: %d attempts, at most %d are allowed", ErrFrame, len(refs), most)
	}
	for _, r := range refs {
		if err := validAttempt(r); err != nil {
			return err
		}
	}
	return nil
}

func (w Welcome) validate() error {
	switch {
	case w.Slots < 0 || w.Slots > maxSlots:
		return fmt.Errorf("%w: %d slots", ErrFrame, w.Slots)
	case w.Room < 0 || w.Room > MaxRefs:
		return fmt.Errorf("%w: room for %d attempts", ErrFrame, w.Room)
	}
	if err := validExecutors(w.Executors); err != nil {
		return err
	}
	if len(w.Features) > maxExecutors || slices.ContainsFunc(w.Features, func(f string) bool { return len(f) > maxName }) {
		return fmt.Errorf("%w: %d features, or one with a long name", ErrFrame, len(w.Features))
	}
	if w.Accept != nil {
		if err := w.Accept.Check(); err != nil {
			return fmt.Errorf("%w: %w", ErrFrame, err)
		}
	}
	return validRefs(w.Assigned)
}

func validExecutors(names []string) error {
	if len(names) > maxExecutors {
		return fmt.Errorf("%w: %d executors, at most %d are allowed", ErrFrame, len(names), maxExecutors)
	}
	for _, e := range names {
		if e == "" || len(e) > maxName {
			return fmt.Errorf("%w: name of an executor of %d bytes", ErrFrame, len(e))
		}
	}
	return nil
}

func (a Assign) validate() error {
	if a.Term == 0 || !validJob(a.Job) || len(a.Owner) > cluster.MaxPrincipal {
		return fmt.Errorf("%w: assign without term or job, or of an owner of %d bytes", ErrFrame, len(a.Owner))
	}
	if err := a.Spec.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrFrame, err)
	}
	for _, c := range a.Chunks {
		if c.Chunk < 0 || c.Chunk >= a.Spec.Chunks() || c.Number < 1 || !bare(c) {
			return fmt.Errorf("%w: chunk %d attempt %d of a job of %d chunks", ErrFrame, c.Chunk, c.Number, a.Spec.Chunks())
		}
	}
	if len(a.Resume) > len(a.Chunks) {
		return fmt.Errorf("%w: %d checkpoints of %d attempts", ErrFrame, len(a.Resume), len(a.Chunks))
	}
	for _, r := range a.Resume {
		if err := r.Check(); err != nil {
			return fmt.Errorf("%w: %w", ErrFrame, err)
		}
	}
	return nil
}

func (c Cancel) validate() error {
	if c.Term == 0 || !validJob(c.Job) {
		return fmt.Errorf("%w: cancel without term or job", ErrFrame)
	}
	for _, r := range c.Chunks {
		if r.Chunk < 0 || r.Number < 1 || !bare(r) {
			return fmt.Errorf("%w: cancel of chunk %d attempt %d", ErrFrame, r.Chunk, r.Number)
		}
	}
	return nil
}

func (r Result) validate() error {
	switch {
	case (r.Result == nil) == (r.Error == ""):
		return fmt.Errorf("%w: want either a result or an error", ErrFrame)
	case len(r.Error) > cluster.MaxReason:
		return fmt.Errorf("%w: error of %d bytes", ErrFrame, len(r.Error))
	case !r.Class.Known() || r.Result != nil && r.Class != job.FailedWork:
		return fmt.Errorf("%w: class %.*q of a failure", ErrFrame, maxName, r.Class)
	case !(r.Seconds >= 0):
		return fmt.Errorf("%w: %g seconds", ErrFrame, r.Seconds)
	case r.Result != nil && len(r.Result.Outputs) > job.MaxOutputs:
		return fmt.Errorf("%w: %d files, at most %d are allowed", ErrFrame, len(r.Result.Outputs), job.MaxOutputs)
	}
	return validAttempt(r.Attempt)
}

func (s Status) validate() error {
	if s.Queued < 0 || s.Kept < 0 || !(s.QueueSeconds >= 0) || len(s.Progress) > MaxRefs {
		return fmt.Errorf("%w: status with %d queued for %g s, %d kept, %d in progress", ErrFrame, s.Queued, s.QueueSeconds, s.Kept, len(s.Progress))
	}
	for _, p := range s.Progress {
		if !(p.Seconds >= 0) || !(p.Idle >= 0) {
			return fmt.Errorf("%w: progress with %g s, idle for %g s", ErrFrame, p.Seconds, p.Idle)
		}
		if a := p.Ask; a != nil && (a.Number < 1 || !(a.Seconds > 0) || len(a.Reason) > cluster.MaxReason) {
			return fmt.Errorf("%w: request %d for %g s more, with a reason of %d bytes", ErrFrame, a.Number, a.Seconds, len(a.Reason))
		}
		if p.Saved != nil {
			if err := p.Saved.Check(); err != nil {
				return fmt.Errorf("%w: %w", ErrFrame, err)
			}
		}
		if err := validAttempt(p.Attempt); err != nil {
			return err
		}
	}
	return validRefs(s.Running)
}
