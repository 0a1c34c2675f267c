package executor

import (
	"io"
	"os"
	"sync"
	"time"

	"github.com/skein-project/skein/worker/runner"
	"github.com/skein-project/skein/worker/words"
)

// boundedBuffer reads standard output up to a limit.
type boundedBuffer struct {
	limit int
	full  chan struct{} // closed when there was more; capacity 0

	b    []byte // complete after wait
	over bool
	pipeReader
}

func (r *boundedBuffer) read(f *os.File) {
	r.begin(f, func() {
		buf := make([]byte, 32<<10)
		for {
			n, err := f.Read(buf)
			switch {
			case r.over: // read on, so that the writer meets its end and not a full pipe
			case len(r.b)+n > r.limit:
				r.over, r.b = true, nil
				close(r.full)
			default:
				r.b = append(r.b, buf[:n]...)
			}
			if err != nil {
				return
			}
		}
	})
}

// progressTail reads standard error: it keeps the end, and reports progress.
type progressTail struct {
	report func(uint64)     // nil: nobody wants to know
	ask    func(runner.Ask) // as well
	save   func()           // as well
	words  *words.Words     // as well

	runner.Tail
	line runner.Progress
	pipeReader
}

func (r *progressTail) read(f *os.File) {
	r.begin(f, func() { _, _ = io.Copy(r, f) }) // ends with its writers
}

// Write implements io.Writer.
func (r *progressTail) Write(p []byte) (int, error) {
	said := r.line.Scan(p)
	if said.Moved && r.report != nil {
		r.report(said.Done)
	}
	if said.Ask != nil && r.ask != nil {
		r.ask(*said.Ask)
	}
	if said.Saved && r.save != nil {
		r.save()
	}
	if r.words != nil {
		_, _ = r.words.Write(p) // never fails
	}
	return r.Tail.Write(p)
}

// pipeReader reads the end of a pipe in a goroutine of its own, which ends with
// the last writer, or some time after wait was called.
type pipeReader struct {
	f    *os.File
	done sync.WaitGroup
}

func (r *pipeReader) begin(f *os.File, read func()) {
	r.f = f
	r.done.Go(read)
}

// wait waits for the end of the output. All writers should have ended; one that
// could not be killed is not waited for.
func (r *pipeReader) wait() {
	_ = r.f.SetReadDeadline(time.Now().Add(pipePatience)) // every pipe has deadlines
	r.done.Wait()
	_ = r.f.Close() // nothing was written
}
