package eventlog

import (
	"fmt"
	"os"
	"sync"
)

const (
	// zeroMin is the least room that is worth it: a log that grows slowly has
	// smaller steps of preallocation.
	zeroMin   = 1 << 20
	zeroPiece = 64 << 10
	zeroFlush = 256 << 10
)

// zeros writes zeros over preallocated room in the background, ahead of who
// writes the file. Where a file system only notes that room is not written yet,
// each sync of a first write has to take that note back, which costs more than
// the data.
//
// It writes only above next, and whoever writes below some offset claims it
// first: so it never writes over anybody's bytes. It has a handle of its own, for
// a handle is told of a failed write back once: the writer's sync must see it.
type zeros struct {
	mu   sync.Mutex
	next int64 // what lies below is zeroed, or the writer's
	end  int64
	busy bool // the goroutine runs
	err  error
	done sync.WaitGroup
}

// begin has [from, to) of the file zeroed, from behind what was asked for
// before, if that is still going on.
func (z *zeros) begin(name string, from, to int64) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.end = to
	if z.busy || z.err != nil {
		return
	}
	z.next = max(z.next, from)
	z.busy = true
	z.done.Go(func() { z.run(name) }) // stop waits for it
}

// claim keeps it from writing below off from now on.
func (z *zeros) claim(off int64) {
	z.mu.Lock()
	z.next = max(z.next, off)
	z.mu.Unlock()
}

// stop returns when it writes no more, until it begins again.
func (z *zeros) stop() {
	z.mu.Lock()
	z.end = 0
	z.mu.Unlock()
	z.done.Wait()
}

// failed returns the first error. Room that turns out not to be there is none:
// who writes the file will see.
func (z *zeros) failed() error {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.err
}

func (z *zeros) run(name string) {
	err := z.fill(name)
	if err == nil {
		return // piece said so before
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	z.busy = false
	if !isFull(err) {
		z.err = fmt.Errorf("write zeros ahead: %w", err)
	}
}

func (z *zeros) fill(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // what was not written back is told by the syncs
	blank := make([]byte, zeroPiece)
	from := int64(-1) // what is written and not flushed
	for {
		off, n, err := z.piece(f, blank)
		if err != nil || n == 0 {
			return err
		}
		if from < 0 {
			from = off
		}
		if off+n-from >= zeroFlush {
			if err := flushRange(f, from, off+n-from); err != nil {
				return err
			}
			from = -1
		}
	}
}

// piece writes the next piece. While it does nobody can claim it.
func (z *zeros) piece(f *os.File, blank []byte) (off, n int64, err error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	off = z.next
	if n = min(int64(len(blank)), z.end-off); n <= 0 {
		z.busy = false // begin may start another one now
		return off, 0, nil
	}
	if _, err := f.WriteAt(blank[:n], off); err != nil {
		return off, 0, err
	}
	z.next += n
	return off, n, nil
}
