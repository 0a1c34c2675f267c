package job

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skein-project/skein/cluster"
)

// ID names a job: "j" and 26 lower-case base32 characters, derived from
// the submitter's idempotency key, so that a retry names the same job.
type ID string

// Limits of a job.
const (
	MaxChunks       = 1 << 20         // chunks in a job
	MaxIterations   = uint64(1) << 53 // iterations in a job: exact in a float64
	MaxConfigBytes  = 1 << 20         // config document
	MaxModuleBytes  = 64 << 20        // WASM module
	MaxResultBytes  = 1 << 20         // standard output of a chunk
	MaxMetrics      = 1024            // metrics in a result
	MaxMetricName   = 64              // bytes in a metric's name
	MaxName         = 64              // bytes in a job's name
	MaxKeyBytes     = 128             // bytes in an idempotency key
	MaxChunkTimeout = 24 * time.Hour
	MinMemoryBytes  = uint64(1) << 20
	MaxMemoryBytes  = uint64(4) << 30
	MaxAttempts     = 100
	DefaultAttempts = 4
	DefaultTimeout  = 10 * time.Minute
	DefaultMemory   = uint64(256) << 20
)

// Executors: what runs the chunks of a job.
const (
	ExecutorWASM = "wasm" // a WASI command module, with no access to its host
	ExecutorExec = "exec" // a program that the host's own configuration allows, by name
)

// MaxProgramName is the longest name of an allowed program, in bytes.
const MaxProgramName = 32

// ParseProgramName checks the name under which a host allows a program: 1 to
// MaxProgramName of a-z, 0-9, '-' and '_'.
func ParseProgramName(s string) (string, error) {
	if s == "" || len(s) > MaxProgramName || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		return "", fmt.Errorf("%q is not a program's name, want 1 to %d of a-z, 0-9, '-' and '_'", s, MaxProgramName)
	}
	return s, nil
}

// FailureClass says what an attempt without result tells of its chunk.
type FailureClass string

// Classes of failure.
const (
	FailedWork  FailureClass = ""         // the work itself failed, and may fail everywhere
	FailedInfra FailureClass = "infra"    // the host could not run it: no verdict about the work
	HandedBack  FailureClass = "returned" // the worker gave it back unfinished, because it stops
)

// Known reports whether c is one of the classes.
func (c FailureClass) Known() bool { return c == FailedWork || c == FailedInfra || c == HandedBack }

// Spec says what to compute. Submit fills zero fields with defaults, then
// the spec is logged and never changes.
type Spec struct {
	Name       string       `json:"name,omitempty"`    // for people
	Key        string       `json:"key"`               // idempotency key, chosen by the submitter
	Executor   string       `json:"executor"`          // ExecutorWASM or ExecutorExec
	Program    string       `json:"program,omitempty"` // of ExecutorExec: its name on the hosts that allow it
	Artefact   cluster.Hash `json:"artefact"`          // module, by SHA-256 of its bytes; zero with ExecutorExec
	Config     cluster.Hash `json:"config"`            // config document; zero: none
	Iterations uint64       `json:"iterations"`        // of the job
	Chunk      uint64       `json:"chunk"`             // iterations per chunk; none in a submission: as with chunk_auto
	Seed       uint64       `json:"seed"`              // of the random numbers
	// Attempts is how often one chunk may be tried before it is given up.
	Attempts       int     `json:"attempts"`
	TimeoutSeconds float64 `json:"timeout_seconds"` // of one attempt
	MemoryBytes    uint64  `json:"memory_bytes"`    // linear memory of one attempt

	Policy
}

// WithDefaults fills the fields that a submitter may leave zero.
func (s Spec) WithDefaults() Spec {
	s.Executor = cmp.Or(s.Executor, ExecutorWASM)
	s.Policy = s.normal()
	if s.Chunk == 0 {
		s.Chunk, s.ChunkAuto = s.evenChunk(), true
	}
	s.Attempts = cmp.Or(s.Attempts, DefaultAttempts)
	if s.TimeoutSeconds == 0 {
		s.TimeoutSeconds = DefaultTimeout.Seconds()
	}
	s.MemoryBytes = cmp.Or(s.MemoryBytes, DefaultMemory)
	return s
}

// evenChunk makes 256 chunks, where nothing is known of the work: enough to spread
// and to lose little with a host.
func (s Spec) evenChunk() uint64 { return max(1, (s.Iterations+255)/256) }

// ErrSpec is wrapped by every error of Spec.Validate.
var ErrSpec = errors.New("invalid job")

// Validate reports the first reason why a filled spec cannot be accepted. It
// does not look at the artefact's bytes.
func (s Spec) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrSpec, fmt.Sprintf(format, args...))
	}
	switch {
	case s.Key == "" || len(s.Key) > MaxKeyBytes:
		return bad("key has %d bytes, want 1-%d", len(s.Key), MaxKeyBytes)
	case len(s.Name) > MaxName:
		return bad("name has %d bytes, at most %d are allowed", len(s.Name), MaxName)
	case s.Executor != ExecutorWASM && s.Executor != ExecutorExec:
		return bad("unknown executor %q, have: %s, %s", s.Executor, ExecutorWASM, ExecutorExec)
	case s.Executor == ExecutorWASM && s.Artefact.IsZero():
		return bad("artefact is missing")
	case s.Executor == ExecutorWASM && s.Program != "":
		return bad("program is set, which executor %s does not take", ExecutorWASM)
	case s.Executor == ExecutorExec && !s.Artefact.IsZero():
		return bad("artefact is set, which executor %s does not take: hosts run their own programs", ExecutorExec)
	case s.Iterations == 0 || s.Iterations > MaxIterations:
		return bad("iterations is %d, want 1-%d", s.Iterations, MaxIterations)
	case s.FirstIteration > MaxIterations-s.Iterations:
		return bad("first_iteration is %d, at most %d are allowed before %d iterations", s.FirstIteration, MaxIterations-s.Iterations, s.Iterations)
	case s.Chunk == 0 || s.Chunk > s.Iterations:
		return bad("chunk is %d, want 1-%d (the iterations)", s.Chunk, s.Iterations)
	case (s.Iterations-1)/s.Chunk >= MaxChunks:
		return bad("%d iterations in chunks of %d make more than %d chunks", s.Iterations, s.Chunk, MaxChunks)
	case len(s.Outputs) > 0 && len(s.Outputs) <= MaxOutputs && s.Chunk < s.LeastChunk():
		return bad("outputs has %d names, which with %d chunks makes more than %d files", len(s.Outputs), s.Chunks(), MaxOutputFiles)
	case s.Attempts < 1 || s.Attempts > MaxAttempts:
		return bad("attempts is %d, want 1-%d", s.Attempts, MaxAttempts)
	case !(s.TimeoutSeconds > 0) || s.TimeoutSeconds > MaxChunkTimeout.Seconds():
		return bad("timeout_seconds is %g, want above 0 and at most %g", s.TimeoutSeconds, MaxChunkTimeout.Seconds())
	case s.MemoryBytes < MinMemoryBytes || s.MemoryBytes > MaxMemoryBytes:
		return bad("memory_bytes is %d, want %d-%d", s.MemoryBytes, MinMemoryBytes, MaxMemoryBytes)
	}
	if s.Executor == ExecutorExec {
		if _, err := ParseProgramName(s.Program); err != nil {
			return bad("program: %v", err)
		}
	}
	if s.RetryOf != "" {
		if _, err := ParseID(string(s.RetryOf)); err != nil {
			return bad("retry_of: %v", err)
		}
	}
	if err := s.check(); err != nil {
		return bad("%v", err)
	}
	return nil
}

// Needs names what a worker must have to run the job, as its Welcome lists it:
// "wasm", or "exec:" and the program.
func (s Spec) Needs() string {
	if s.Executor == ExecutorExec {
		return ExecutorExec + ":" + s.Program
	}
	return s.Executor
}

// Hashes lists the artefacts that a worker needs to run the job.
func (s Spec) Hashes() []cluster.Hash {
	var out []cluster.Hash
	for _, h := range []cluster.Hash{s.Artefact, s.Config} {
		if !h.IsZero() {
			out = append(out, h)
		}
	}
	return out
}

// Chunks is the number of chunks of a valid spec.
func (s Spec) Chunks() int { return int((s.Iterations-1)/s.Chunk) + 1 }

// ChunkRange returns the first iteration of chunk i and how many it covers.
func (s Spec) ChunkRange(i int) (offset, n uint64) {
	offset = uint64(i) * s.Chunk
	return s.FirstIteration + offset, min(s.Chunk, s.Iterations-offset)
}

// Timeout is TimeoutSeconds as a duration.
func (s Spec) Timeout() time.Duration {
	return time.Duration(s.TimeoutSeconds * float64(time.Second))
}

// ChunkResult is what one attempt at a chunk computed.
type ChunkResult struct {
	Iterations uint64            `json:"iterations"`
	Metrics    map[string]Metric `json:"metrics"`
	Outputs    Files             `json:"outputs,omitempty"` // the files that the chunk left; nil: none
}

// ErrResult is wrapped by every error of ChunkResult.Validate.
var ErrResult = errors.New("invalid result")

// Validate checks a result against the chunk's iterations: finite numbers,
// min <= mean <= max and 0 <= M2 <= n(max-min)^2/4, with room for rounding.
func (r ChunkResult) Validate(iterations uint64) error {
	if r.Iterations != iterations {
		return fmt.Errorf("%w: %d iterations, the chunk has %d", ErrResult, r.Iterations, iterations)
	}
	if len(r.Metrics) > MaxMetrics {
		return fmt.Errorf("%w: %d metrics, at most %d are allowed", ErrResult, len(r.Metrics), MaxMetrics)
	}
	buckets := 0
	for name, m := range r.Metrics {
		if err := checkMetricName(name); err != nil {
			return err
		}
		if err := m.Validate(iterations); err != nil {
			return fmt.Errorf("%w: metric %q: %w", ErrResult, name, err)
		}
		buckets += m.Sketch.Buckets()
	}
	if buckets > MaxResultBuckets {
		return fmt.Errorf("%w: sketches of %d buckets together, at most %d are allowed", ErrResult, buckets, MaxResultBuckets)
	}
	return nil
}

func checkMetricName(name string) error {
	if name == "" || len(name) > MaxMetricName || !utf8.ValidString(name) {
		return fmt.Errorf("%w: metric name of %d bytes, want UTF-8 of 1-%d", ErrResult, len(name), MaxMetricName)
	}
	return nil
}

// Hash is the SHA-256 of a valid result's JSON, as the log holds it: two
// attempts computed the same if it is equal.
func (r ChunkResult) Hash() cluster.Hash {
	b, err := json.Marshal(r)
	if err != nil { // only a number that is not finite
		panic("cluster: hash of an invalid result: " + err.Error())
	}
	return cluster.Hash(sha256.Sum256(b))
}

// Result is what a job's chunks computed together.
type Result struct {
	Accepted   int               `json:"accepted"`   // chunks with a result
	Failed     int               `json:"failed"`     // chunks given up
	Disputed   int               `json:"disputed"`   // chunks with results that differ
	Iterations uint64            `json:"iterations"` // of the accepted chunks
	Micros     int64             `json:"micros"`     // run time of the accepted attempts, in microseconds
	Metrics    map[string]Metric `json:"metrics"`    // per metric n, mean, m2, min and max of all samples
	Workers    []WorkShare       `json:"workers"`    // by name
	// Skipped are the chunks without a result, at most MaxSpans spans of them.
	Skipped []Span `json:"skipped,omitempty"`
	// Anomalies are results that are odd beside the others, the first
	// MaxAnomalies chunks of them. They count.
	Anomalies []Anomaly `json:"anomalies,omitempty"`
	// Outputs are the files that the accepted chunks left; nil: none.
	Outputs *OutputSum `json:"outputs,omitempty"`
	// GivenUp says on which workers chunks were given up, by name, as far as it is told: older
	// programs do not say it.
	GivenUp []FailShare `json:"given_up,omitempty"`
}

// Bounds of the lists in a Result.
const (
	MaxSpans         = 64
	MaxAnomalies     = 16
	MaxAnomalyReason = 256 // bytes
)

// Anomaly is a chunk's result that an operator should look at.
type Anomaly struct {
	Chunk  int            `json:"chunk"`  // from 0
	Worker cluster.NodeID `json:"worker"` // whose result it is
	Reason string         `json:"reason"`
}

// Span is a run of chunks, both ends included.
type Span struct {
	First int `json:"first"` // chunk, from 0
	Last  int `json:"last"`  // chunk, the same or a higher one
}

// WorkShare is what one host's workers contributed to a job.
type WorkShare struct {
	Worker     cluster.NodeID `json:"worker"`     // the host
	Chunks     int            `json:"chunks"`     // accepted from it
	Iterations uint64         `json:"iterations"` // of these chunks
}

// FailShare is how many chunks of a job were given up on one worker: the last one that
// failed at them.
type FailShare struct {
	Worker cluster.NodeID `json:"worker"`
	Chunks int            `json:"chunks"`
}

// Validate checks a result of a job of a valid spec.
func (r Result) Validate(s Spec) error {
	total := s.Chunks()
	switch {
	case r.Accepted < 0 || r.Accepted > total || r.Failed < 0 || r.Failed > total-r.Accepted || r.Disputed < 0 || r.Disputed > r.Accepted:
		return fmt.Errorf("%w: %d accepted, %d failed and %d disputed of %d chunks", ErrResult, r.Accepted, r.Failed, r.Disputed, total)
	case r.Iterations > s.Iterations || r.Micros < 0:
		return fmt.Errorf("%w: %d iterations of %d in %d us", ErrResult, r.Iterations, s.Iterations, r.Micros)
	case len(r.Metrics) > MaxMetrics || len(r.Workers) > total:
		return fmt.Errorf("%w: %d metrics, %d workers", ErrResult, len(r.Metrics), len(r.Workers))
	}
	for name, m := range r.Metrics {
		if err := checkMetricName(name); err != nil {
			return err
		}
		if err := m.finite(r.Iterations); err != nil {
			return fmt.Errorf("%w: metric %q: %w", ErrResult, name, err)
		}
		if err := m.Sketch.Validate(m, MaxMergedBuckets); err != nil {
			return fmt.Errorf("%w: metric %q: %w", ErrResult, name, err)
		}
	}
	if err := r.checkSkipped(total); err != nil {
		return err
	}
	if err := r.checkAnomalies(total); err != nil {
		return err
	}
	if err := r.checkOutputs(s); err != nil {
		return err
	}
	for i, w := range r.Workers {
		if _, err := cluster.ParseNodeID(string(w.Worker)); err != nil {
			return fmt.Errorf("%w: worker: %w", ErrResult, err)
		}
		if w.Chunks < 1 || w.Chunks > r.Accepted || i > 0 && r.Workers[i-1].Worker >= w.Worker {
			return fmt.Errorf("%w: share of worker %s", ErrResult, w.Worker)
		}
	}
	return r.checkGivenUp()
}

func (r Result) checkGivenUp() error {
	left := r.Failed
	for i, w := range r.GivenUp {
		if _, err := cluster.ParseNodeID(string(w.Worker)); err != nil {
			return fmt.Errorf("%w: worker: %w", ErrResult, err)
		}
		if w.Chunks < 1 || w.Chunks > left || i > 0 && r.GivenUp[i-1].Worker >= w.Worker {
			return fmt.Errorf("%w: chunks given up on %s", ErrResult, w.Worker)
		}
		left -= w.Chunks
	}
	return nil
}

func (r Result) checkAnomalies(total int) error {
	if len(r.Anomalies) > min(MaxAnomalies, r.Accepted) {
		return fmt.Errorf("%w: %d anomalies in %d accepted chunks", ErrResult, len(r.Anomalies), r.Accepted)
	}
	for i, a := range r.Anomalies {
		if _, err := cluster.ParseNodeID(string(a.Worker)); err != nil || a.Chunk < 0 || a.Chunk >= total || i > 0 && r.Anomalies[i-1].Chunk >= a.Chunk ||
			a.Reason == "" || len(a.Reason) > MaxAnomalyReason {
			return fmt.Errorf("%w: anomaly of chunk %d by %.64q", ErrResult, a.Chunk, a.Worker)
		}
	}
	return nil
}

func (r Result) checkSkipped(total int) error {
	if len(r.Skipped) > MaxSpans {
		return fmt.Errorf("%w: %d spans of skipped chunks", ErrResult, len(r.Skipped))
	}
	next, sum := 0, 0
	for _, s := range r.Skipped {
		if s.First < next || s.Last < s.First || s.Last >= total {
			return fmt.Errorf("%w: skipped chunks %d-%d of %d", ErrResult, s.First, s.Last, total)
		}
		next, sum = s.Last+2, sum+s.Last-s.First+1
	}
	if sum > total-r.Accepted {
		return fmt.Errorf("%w: %d accepted and %d skipped of %d chunks", ErrResult, r.Accepted, sum, total)
	}
	return nil
}
