package runner

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// The parent and its runner speak length-prefixed JSON: a 4-byte big-endian
// length and an object. The parent writes a Setup once, then Tasks; to
// each Task the runner answers Loaded and then Done, or Done
// alone if the module cannot be loaded.

// maxRunnerFrame holds a full standard output in base64 and what stands
// around it.
const maxRunnerFrame = 2*job.MaxResultBytes + 64<<10

// MaxWords is how much of the end of a guest's standard error is kept.
const MaxWords = 4 << 10

// ErrFrame is wrapped by the errors of frames that cannot be understood.
var ErrFrame = errors.New("invalid runner frame")

// Setup is what a runner is told first.
type Setup struct {
	CacheDir string   `json:"cache_dir"`         // of compiled modules; empty: none
	Program  *Program `json:"program,omitempty"` // supervise this one instead of running guests
}

// Task is one chunk, or with Compile only the module's compilation.
type Task struct {
	Module      cluster.Hash `json:"module"`
	ModulePath  string       `json:"module_path"`
	Config      cluster.Hash `json:"config"` // zero: none
	ConfigPath  string       `json:"config_path"`
	MemoryPages uint32       `json:"memory_pages"`
	Iterations  uint64       `json:"iterations"`
	Offset      uint64       `json:"offset"`
	Chunk       int          `json:"chunk"`
	Seed        uint64       `json:"seed"`
	Compile     bool         `json:"compile,omitempty"`
	// Words says that the parent wants to read what the guest says.
	Words bool `json:"words,omitempty"`
	// Files are what the guest finds in GuestIn. What it leaves in GuestOut, at most
	// OutBytes, is written into OutDir; empty: it has no such directory.
	Files    []InFile `json:"files,omitempty"`
	OutDir   string   `json:"out_dir,omitempty"`
	OutBytes int64    `json:"out_bytes,omitempty"`
	// SaveEvery is the shortest time between two checkpoints that the parent is told of; 0:
	// it wants none.
	SaveEvery time.Duration `json:"save_every,omitempty"`
	// NoResult says that standard output is words, too.
	NoResult bool `json:"no_result,omitempty"`
}

// InFile is a file for a guest.
type InFile struct {
	Name string       `json:"name"`
	Path string       `json:"path"`
	Hash cluster.Hash `json:"hash"`
}

// Where a guest finds its files, and leaves its own.
const (
	GuestIn  = "/in"
	GuestOut = "/out"
)

// Reply is what a runner says of a task; one of the fields is set.
type Reply struct {
	Loaded *Loaded `json:"loaded,omitempty"`
	Done   *Done   `json:"done,omitempty"`
	// Progress is how many iterations are done; it comes between the two.
	Progress uint64 `json:"progress,omitempty"`
	// Ask is what the guest wants more time for; it may come with progress.
	Ask *Ask `json:"ask,omitempty"`
	// Said is what the guest said since, Skipped how much before that nobody kept; they
	// come between the two as well.
	Said    []byte `json:"said,omitempty"`
	Skipped uint64 `json:"skipped,omitempty"`
	// Saved says that there is a checkpoint in OutDir; it may come with progress.
	Saved bool `json:"saved,omitempty"`
}

// Between reports that the task goes on after r.
func (r Reply) Between() bool { return r.Progress > 0 || r.Ask != nil || len(r.Said) > 0 || r.Saved }

// Loaded says that the guest starts now.
type Loaded struct {
	Seconds float64 `json:"seconds"` // it took to load; 0: it was loaded
}

// Done ends a task.
type Done struct {
	Verdict Verdict `json:"verdict"`
	Exit    uint32  `json:"exit,omitempty"`
	Detail  string  `json:"detail,omitempty"`
	Stdout  []byte  `json:"stdout,omitempty"`
	Stderr  []byte  `json:"stderr,omitempty"`
}

// Verdict is how a task ended.
type Verdict string

// Verdicts.
const (
	VerdictOK      Verdict = "ok"      // exit 0; what was written is not judged
	VerdictExit    Verdict = "exit"    // exit with another code
	VerdictTrap    Verdict = "trap"    // stopped by the runtime
	VerdictOutput  Verdict = "output"  // wrote too much
	VerdictFiles   Verdict = "files"   // wrote more into files than it may
	VerdictModule  Verdict = "module"  // cannot be compiled or started
	VerdictCorrupt Verdict = "corrupt" // a file does not match its digest
	VerdictFailed  Verdict = "failed"  // the runner's own fault
)

// WriteFrame writes v as one frame.
func WriteFrame(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode runner frame: %w", err)
	}
	buf := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(b)), uint32(len(b)))
	if _, err := w.Write(append(buf, b...)); err != nil {
		return fmt.Errorf("write runner frame: %w", err)
	}
	return nil
}

// ReadFrame reads one frame into v. A clean end is io.EOF.
func ReadFrame(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return io.EOF
		}
		return fmt.Errorf("read runner frame: %w", err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxRunnerFrame {
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrFrame, n, maxRunnerFrame)
	}
	var buf bytes.Buffer // grows with what arrives, not with what is promised
	if _, err := io.CopyN(&buf, r, int64(n)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // a cut frame is not a clean end
		}
		return fmt.Errorf("read runner frame: %w", err)
	}
	if err := json.Unmarshal(buf.Bytes(), v); err != nil {
		return fmt.Errorf("%w: %w", ErrFrame, err)
	}
	return nil
}

// LastWords picks the useful part of a standard error: from the last line
// that announces a crash, else the last of it.
func LastWords(stderr []byte) string {
	s := stderr
	for _, mark := range []string{"panic: ", "fatal error: ", "thread '"} {
		if i := bytes.LastIndex(s, []byte("\n"+mark)); i >= 0 {
			return job.Clip(job.OneLine(string(s[i:])), cluster.MaxReason/2)
		}
		if bytes.HasPrefix(s, []byte(mark)) {
			return job.Clip(job.OneLine(string(s)), cluster.MaxReason/2)
		}
	}
	text := job.OneLine(string(s))
	if len(text) > cluster.MaxReason/2 {
		text = "..." + job.OneLine(text[len(text)-cluster.MaxReason/2:])
	}
	return text
}

// Tail keeps the last MaxWords bytes written to it.
type Tail struct{ b []byte }

// LastWords is the useful part of what was kept.
func (t *Tail) LastWords() string { return LastWords(t.b) }

func (t *Tail) Write(p []byte) (int, error) {
	n := len(p)
	if len(p) > MaxWords {
		p = p[len(p)-MaxWords:]
	}
	if over := len(t.b) + len(p) - MaxWords; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	t.b = append(t.b, p...)
	return n, nil
}
