package worker

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/skein-project/skein/cluster"
)

// The parent and its runner speak length-prefixed JSON: a 4-byte big-endian
// length and an object. The parent writes runnerSetup once, then runnerTask;
// for each task the runner answers with loaded and then done, or with done
// alone if the module cannot be loaded.

// maxRunnerFrame holds a full standard output in base64 and what stands
// around it.
const maxRunnerFrame = 2*cluster.MaxResultBytes + 64<<10

// maxStderr is how much of the end of a guest's standard error is kept.
const maxStderr = 4 << 10

var errRunnerFrame = errors.New("invalid runner frame")

type runnerSetup struct {
	CacheDir string        `json:"cache_dir"`         // of compiled modules; empty: none
	Program  *programSetup `json:"program,omitempty"` // supervise this one instead of running guests
}

// runnerTask is one chunk, or with Compile only the module's compilation.
type runnerTask struct {
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

	report func(uint64) // of the parent; nil: nobody wants to know
}

type runnerReply struct {
	Loaded *runnerLoaded `json:"loaded,omitempty"`
	Done   *runnerDone   `json:"done,omitempty"`
	// Progress is how many iterations are done; it comes between the two.
	Progress uint64 `json:"progress,omitempty"`
}

// runnerLoaded says that the guest starts now.
type runnerLoaded struct {
	Seconds float64 `json:"seconds"` // it took to load; 0: it was loaded
}

// runnerDone ends a task.
type runnerDone struct {
	Verdict verdict `json:"verdict"`
	Exit    uint32  `json:"exit,omitempty"`
	Detail  string  `json:"detail,omitempty"`
	Stdout  []byte  `json:"stdout,omitempty"`
	Stderr  []byte  `json:"stderr,omitempty"`
}

// verdict is how a task ended.
type verdict string

const (
	verdictOK      verdict = "ok"      // exit 0; what was written is not judged
	verdictExit    verdict = "exit"    // exit with another code
	verdictTrap    verdict = "trap"    // stopped by the runtime
	verdictOutput  verdict = "output"  // wrote too much
	verdictModule  verdict = "module"  // cannot be compiled or started
	verdictCorrupt verdict = "corrupt" // a file does not match its digest
	verdictFailed  verdict = "failed"  // the runner's own fault
)

func writeRunnerFrame(w io.Writer, v any) error {
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

// readRunnerFrame reads one frame into v. A clean end is io.EOF.
func readRunnerFrame(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return io.EOF
		}
		return fmt.Errorf("read runner frame: %w", err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxRunnerFrame {
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", errRunnerFrame, n, maxRunnerFrame)
	}
	var buf bytes.Buffer // grows with what arrives, not with what is promised
	if _, err := io.CopyN(&buf, r, int64(n)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // a cut frame is not a clean end
		}
		return fmt.Errorf("read runner frame: %w", err)
	}
	if err := json.Unmarshal(buf.Bytes(), v); err != nil {
		return fmt.Errorf("%w: %w", errRunnerFrame, err)
	}
	return nil
}

// verdictError turns how a guest ended into a failure reason.
func (d *runnerDone) verdictError() error {
	var what string
	switch d.Verdict {
	case verdictOK:
		return nil
	case verdictExit:
		what = fmt.Sprintf("exit code %d", d.Exit)
	case verdictTrap:
		what = "trap: " + d.Detail
	case verdictOutput:
		what = tooMuchOutput().Error()
	case verdictModule:
		what = "module cannot be run: " + d.Detail
	case verdictCorrupt:
		return fmt.Errorf("%w: %s", ErrCorrupt, d.Detail)
	case verdictFailed:
		what = "runner: " + d.Detail
	default:
		return fmt.Errorf("%w: verdict %q", errRunnerFrame, d.Verdict)
	}
	if said := lastWords(d.Stderr); said != "" {
		what += "; standard error: " + said
	}
	return errors.New(what)
}

// lastWords picks the useful part of a standard error: from the last line
// that announces a crash, else the last of it.
func lastWords(stderr []byte) string {
	s := stderr
	for _, mark := range []string{"panic: ", "fatal error: ", "thread '"} {
		if i := bytes.LastIndex(s, []byte("\n"+mark)); i >= 0 {
			return clip(clean(string(s[i:])), cluster.MaxReason/2)
		}
		if bytes.HasPrefix(s, []byte(mark)) {
			return clip(clean(string(s)), cluster.MaxReason/2)
		}
	}
	text := clean(string(s))
	if len(text) > cluster.MaxReason/2 {
		text = "..." + clean(text[len(text)-cluster.MaxReason/2:])
	}
	return text
}

// tail keeps the last maxStderr bytes written to it.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if len(p) > maxStderr {
		p = p[len(p)-maxStderr:]
	}
	if over := len(t.b) + len(p) - maxStderr; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	t.b = append(t.b, p...)
	return n, nil
}
