package disk

import (
	"fmt"
	"os"
	"sync"
)

const (
	// zeroMin is the smallest preallocation that is worth it: a log that grows
	// slowly preallocates in smaller steps.
	zeroMin   = 1 << 20
	zeroPiece = 64 << 10
	zeroFlush = 256 << 10
)

// zeros writes zeros over preallocated space in the background, ahead of the
// writer of the file. Some file systems only mark preallocated space as
// unwritten: then each sync after a first write has to clear that mark, which
// costs more than the data.
//
// It writes only above next, and a writer claims an offset before it writes
// below it, so zeros never overwrite data. It has a file handle of its own,
// because a handle reports a failed writeback only once and the writer's sync
// must be the one that sees it.
type zeros struct {
	mu   sync.Mutex
	next int64 // everything below is zeroed, or belongs to the writer
	end  int64
	busy bool // the goroutine runs
	err  error
	done sync.WaitGroup
}

// begin zeroes [from, to) of the file in the background. If it is still busy
// with an earlier range it goes on from there.
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

// claim stops it from writing below off from now on.
func (z *zeros) claim(off int64) {
	z.mu.Lock()
	z.next = max(z.next, off)
	z.mu.Unlock()
}

// stop returns when it no longer writes, until begin is called again.
func (z *zeros) stop() {
	z.mu.Lock()
	z.end = 0
	z.mu.Unlock()
	z.done.Wait()
}

// failed returns the first error. A full disk is not one: the writer of the
// file will see it.
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
	if !IsFull(err) {
		z.err = fmt.Errorf("write zeros ahead: %w", err)
	}
}

func (z *zeros) fill(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // the syncs report what was not written back
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

// piece writes the next piece, which cannot be claimed meanwhile.
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
