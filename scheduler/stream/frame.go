package stream

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/skein-project/skein/cluster"
)

// Proto is the stream protocol's name in the mesh.
const Proto = "skein-work/1"

// MaxFrame is the longest frame, in bytes.
const MaxFrame = 4 << 20

// ErrFrame is wrapped by every decoding error.
var ErrFrame = errors.New("invalid worker frame")

// Frame is one message; exactly one field is set.
type Frame struct {
	Hello    *Hello    `json:"hello,omitempty"`
	Welcome  *Welcome  `json:"welcome,omitempty"`
	Refused  *Refused  `json:"refused,omitempty"`
	Assign   *Assign   `json:"assign,omitempty"`
	Cancel   *Cancel   `json:"cancel,omitempty"`
	Accepted *Accepted `json:"accepted,omitempty"`
	Result   *Result   `json:"result,omitempty"`
	Status   *Status   `json:"status,omitempty"`
	Ping     *Ping     `json:"ping,omitempty"`
	Pong     *Ping     `json:"pong,omitempty"`
}

// Hello opens a stream in Term.
type Hello struct {
	Term   cluster.Term   `json:"term"`
	Holder cluster.NodeID `json:"holder"`
}

// Welcome tells what the worker can do, runs and keeps. Right after it the
// worker sends again each result that it still keeps.
type Welcome struct {
	Slots     int      `json:"slots"`
	Executors []string `json:"executors"`
	Assigned  []Ref    `json:"assigned"` // queued or running
}

// Refused ends a stream: the worker has seen MaxTerm.
type Refused struct {
	MaxTerm cluster.Term `json:"max_term"`
	Reason  string       `json:"reason"`
}

// Ref names one attempt at a chunk.
type Ref struct {
	Job     cluster.JobID `json:"job"`
	Chunk   int           `json:"chunk"`
	Attempt int           `json:"attempt"`
}

// Assign hands chunks of one job to the worker. Spec is whole, so that a
// worker needs no log to work.
type Assign struct {
	Term   cluster.Term    `json:"term"`
	Job    cluster.JobID   `json:"job"`
	Spec   cluster.JobSpec `json:"spec"`
	Chunks []ChunkRef      `json:"chunks"`
}

// ChunkRef is one chunk of an Assign.
type ChunkRef struct {
	Chunk   int `json:"chunk"`
	Attempt int `json:"attempt"`
}

// Cancel stops attempts and forgets their results; no Chunks means the whole
// job.
type Cancel struct {
	Term   cluster.Term  `json:"term"`
	Job    cluster.JobID `json:"job"`
	Chunks []ChunkRef    `json:"chunks,omitempty"`
}

// Accepted lists attempts whose fate is stable in the log: the worker drops
// what it keeps of them.
type Accepted struct {
	Term cluster.Term `json:"term"`
	Refs []Ref        `json:"refs"`
}

// Result ends one attempt: either Result or Error is set.
type Result struct {
	Ref
	Result  *cluster.ChunkResult `json:"result,omitempty"`
	Error   string               `json:"error,omitempty"` // at most cluster.MaxReason bytes
	Seconds float64              `json:"seconds"`
}

// Status reports what the worker is doing, at least every 2 s.
type Status struct {
	Running []Ref `json:"running"`
	Queued  int   `json:"queued"`
	Kept    int   `json:"kept"` // results not yet accepted
}

// Ping asks for a Pong with the same Nonce.
type Ping struct {
	Term  cluster.Term `json:"term,omitempty"`
	Nonce uint64       `json:"nonce"`
}

// Write encodes f as a 4-byte big-endian length and JSON, in one Write call.
func Write(w io.Writer, f Frame) error {
	b, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("encode worker frame: %w", err)
	}
	if len(b) > MaxFrame {
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrFrame, len(b), MaxFrame)
	}
	buf := make([]byte, 4, 4+len(b))
	binary.BigEndian.PutUint32(buf, uint32(len(b)))
	if _, err := w.Write(append(buf, b...)); err != nil {
		return fmt.Errorf("write worker frame: %w", err)
	}
	return nil
}

// Read decodes the next frame. A length over MaxFrame is refused before
// anything is allocated. At the end of the stream it returns io.EOF.
func Read(r io.Reader) (Frame, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return Frame{}, io.EOF
		}
		return Frame{}, fmt.Errorf("read worker frame: %w", err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > MaxFrame {
		return Frame{}, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrFrame, n, MaxFrame)
	}
	var buf bytes.Buffer // grows with what arrives, not with what is promised
	if _, err := io.CopyN(&buf, r, int64(n)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // a cut frame is not a clean end
		}
		return Frame{}, fmt.Errorf("read worker frame: %w", err)
	}
	var f Frame
	if err := json.Unmarshal(buf.Bytes(), &f); err != nil {
		return Frame{}, fmt.Errorf("%w: %w", ErrFrame, err)
	}
	return f, f.Validate()
}

// Validate checks that exactly one field is set and that numbers are in
// range.
func (f Frame) Validate() error {
	set := 0
	for _, on := range []bool{
		f.Hello != nil, f.Welcome != nil, f.Refused != nil, f.Assign != nil, f.Cancel != nil,
		f.Accepted != nil, f.Result != nil, f.Status != nil, f.Ping != nil, f.Pong != nil,
	} {
		if on {
			set++
		}
	}
	if set != 1 {
		return fmt.Errorf("%w: %d kinds in one frame, want 1", ErrFrame, set)
	}
	switch {
	case f.Hello != nil && f.Hello.Term == 0:
		return fmt.Errorf("%w: hello without term", ErrFrame)
	case f.Welcome != nil && (f.Welcome.Slots < 0 || f.Welcome.Slots > 4096):
		return fmt.Errorf("%w: %d slots", ErrFrame, f.Welcome.Slots)
	case f.Assign != nil:
		return f.Assign.validate()
	case f.Cancel != nil && f.Cancel.Term == 0, f.Accepted != nil && f.Accepted.Term == 0:
		return fmt.Errorf("%w: no term", ErrFrame)
	case f.Result != nil:
		return f.Result.validate()
	}
	return nil
}

func (a Assign) validate() error {
	if a.Term == 0 {
		return fmt.Errorf("%w: assign without term", ErrFrame)
	}
	if err := a.Spec.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrFrame, err)
	}
	for _, c := range a.Chunks {
		if c.Chunk < 0 || c.Chunk >= a.Spec.Chunks() || c.Attempt < 1 {
			return fmt.Errorf("%w: chunk %d attempt %d of a job of %d chunks", ErrFrame, c.Chunk, c.Attempt, a.Spec.Chunks())
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
	case r.Chunk < 0 || r.Attempt < 1 || !(r.Seconds >= 0):
		return fmt.Errorf("%w: chunk %d attempt %d seconds %g", ErrFrame, r.Chunk, r.Attempt, r.Seconds)
	}
	return nil
}
