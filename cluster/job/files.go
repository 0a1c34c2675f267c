package job

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/skein-project/skein/cluster"
)

// Limits of the files of a job.
const (
	MaxFileName        = 64       // bytes of a name
	MaxFiles           = 256      // that each chunk of a job is given
	MaxOutputs         = 16       // that one chunk leaves
	MaxAttemptBytes    = 64 << 20 // that one chunk leaves, all files together
	MaxOutputFiles     = 1 << 16  // that all chunks of a job leave
	DefaultOutputBytes = 1 << 30  // of all chunks of a job
	MaxOutputBytes     = int64(1) << 40
)

// ResultKind says what a chunk computes.
type ResultKind string

// Values of ResultKind.
const (
	ResultMetrics ResultKind = "metrics" // it writes a result to standard output
	ResultNone    ResultKind = "none"    // that it ends well is all; standard output is words, as standard error is
)

// File is a file by what is in it.
type File struct {
	Hash cluster.Hash `json:"hash"` // SHA-256 of its bytes
	Size int64        `json:"size"` // in bytes
}

// Files are files by name. None are nil, never an empty map.
type Files map[string]File

// Bytes is how many bytes all of them have.
func (f Files) Bytes() (n int64) {
	for _, one := range f {
		n += one.Size
	}
	return n
}

// Equal reports whether both have the same files.
func (f Files) Equal(o Files) bool { return maps.Equal(f, o) }

// ParseFileName checks the name of a file of a job: 1 to MaxFileName letters, digits,
// dots, underscores and dashes, and not "." or "..".
func ParseFileName(s string) (string, error) {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
	}
	if s == "" || len(s) > MaxFileName || strings.ContainsFunc(s, odd) || s == "." || s == ".." {
		return "", fmt.Errorf("%s is not the name of a file, want 1 to %d of a-z, A-Z, 0-9, '.', '_' and '-'", Clip(fmt.Sprintf("%q", s), 2*MaxFileName), MaxFileName)
	}
	return s, nil
}

// HasFiles reports that a worker must know what files of jobs are, or checkpoints, to run one.
func (p Policy) HasFiles() bool {
	return len(p.Files) > 0 || len(p.Outputs) > 0 || p.Result == ResultNone || p.Checkpoint
}

// OutputLimit is OutputBytes with its default.
func (p Policy) OutputLimit() int64 { return cmp.Or(p.OutputBytes, DefaultOutputBytes) }

// AttemptLimit is how many bytes one chunk may leave.
func (p Policy) AttemptLimit() int64 { return min(p.OutputLimit(), MaxAttemptBytes) }

// LeastChunk is how many iterations a chunk has at least, so that not too many files come
// of the job.
func (s Spec) LeastChunk() uint64 {
	if len(s.Outputs) == 0 {
		return 1
	}
	most := uint64(MaxOutputFiles / len(s.Outputs))
	return (s.Iterations + most - 1) / most
}

// checkFiles reports what of the files of a job cannot be.
func (p Policy) checkFiles() error {
	switch {
	case p.Result != "" && p.Result != ResultMetrics && p.Result != ResultNone:
		return fmt.Errorf("result is %.32q, want %s or %s", p.Result, ResultMetrics, ResultNone)
	case p.Result == ResultNone && p.EarlyStop.On():
		return fmt.Errorf("early_stop.metric is set with result %s, which has no metrics", ResultNone)
	case len(p.Files) > MaxFiles:
		return fmt.Errorf("files has %d names, at most %d are allowed", len(p.Files), MaxFiles)
	case len(p.Outputs) > MaxOutputs:
		return fmt.Errorf("outputs has %d names, at most %d are allowed", len(p.Outputs), MaxOutputs)
	case p.OutputBytes != 0 && len(p.Outputs) == 0:
		return fmt.Errorf("output_bytes is %d, and there are no outputs", p.OutputBytes)
	case p.OutputBytes < 0 || p.OutputBytes > MaxOutputBytes:
		return fmt.Errorf("output_bytes is %d, want 1-%d, or 0 for %d", p.OutputBytes, MaxOutputBytes, DefaultOutputBytes)
	}
	if err := p.checkCheckpoint(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(p.Files)) {
		if _, err := ParseFileName(name); err != nil {
			return fmt.Errorf("files: %w", err)
		}
		if p.Files[name].IsZero() {
			return fmt.Errorf("files: %s has no hash", name)
		}
	}
	return cluster.CheckSet("outputs", p.Outputs, MaxOutputs, func(name string) bool {
		_, err := ParseFileName(name)
		return err == nil
	})
}

// CheckResult reports why r cannot be the result of a chunk of a job.
func (s Spec) CheckResult(chunk int, r ChunkResult) error {
	_, n := s.ChunkRange(chunk)
	if err := r.Validate(n); err != nil {
		return err
	}
	return s.CheckFiles(r.Outputs)
}

// CheckFiles reports why f cannot be what a chunk of a job leaves.
func (s Spec) CheckFiles(f Files) error {
	if len(f) != len(s.Outputs) {
		return fmt.Errorf("%w: %d files, the job has %d outputs", ErrResult, len(f), len(s.Outputs))
	}
	for _, name := range s.Outputs {
		switch one, ok := f[name]; {
		case !ok:
			return fmt.Errorf("%w: no file %s", ErrResult, name)
		case one.Size < 0 || one.Hash.IsZero():
			return fmt.Errorf("%w: file %s of %d bytes", ErrResult, name, one.Size)
		}
	}
	if n := f.Bytes(); n < 0 || n > s.AttemptLimit() {
		return fmt.Errorf("%w: files of %d bytes, at most %d are allowed", ErrResult, n, s.AttemptLimit())
	}
	return nil
}

// OutputSum is what all chunks of a job left together.
type OutputSum struct {
	// Manifest is the SHA-256 of the list of all files: see OutputFile.Line.
	Manifest cluster.Hash `json:"manifest"`
	Files    int          `json:"files"`
	Bytes    int64        `json:"bytes"`
}

// OutputFile is a file that a chunk left.
type OutputFile struct {
	Chunk int    `json:"chunk"` // from 0
	Name  string `json:"name"`
	File
	Worker cluster.NodeID `json:"worker"` // the host that made it
}

// Line is f in a manifest, which lists all files by chunk and name: chunk, name, hash and
// size, separated by blanks.
func (f OutputFile) Line() string {
	return fmt.Sprintf("%d %s %s %d\n", f.Chunk, f.Name, f.Hash, f.Size)
}

// checkOutputs checks what the chunks of a job left.
func (r Result) checkOutputs(s Spec) error {
	o := r.Outputs
	switch {
	case o == nil:
		return nil
	case o.Files != r.Accepted*len(s.Outputs) || o.Files == 0 || o.Bytes < 0 || o.Manifest.IsZero():
		return fmt.Errorf("%w: %d files of %d bytes left by %d chunks", ErrResult, o.Files, o.Bytes, r.Accepted)
	}
	return nil
}
