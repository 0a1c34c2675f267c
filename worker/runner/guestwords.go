package runner

import (
	"sync"
	"time"

	"github.com/skein-project/skein/worker/words"
)

const (
	// progressEvery is the shortest time between two reports of a guest.
	progressEvery = 100 * time.Millisecond
	// sayEvery is how long words of a guest wait for others that go with them.
	sayEvery = 100 * time.Millisecond
)

// guestWords keeps the end of a guest's standard error, reports progress and, where
// they are wanted, passes the words on as they come: of a guest that is killed nothing
// else would be left. A guest that says more than the parent keeps is not sent whole.
type guestWords struct {
	tell   func(Reply) error
	wanted bool
	save   func() bool // has what is saved where the parent finds it, unless it was so lately; nil: the parent wants none
	Tail
	line Progress
	done uint64 // the last progress, told or not
	told time.Time
	said words.Words

	mu    sync.Mutex // of what is told, which the guest and the timer do
	timer *time.Timer
	sent  uint64 // of said
	ended bool
}

// Write implements io.Writer; the guest waits meanwhile.
func (w *guestWords) Write(p []byte) (int, error) {
	said := w.line.Scan(p)
	if said.Moved {
		w.done = said.Done
	}
	due := said.Moved && time.Since(w.told) >= progressEvery
	saved := said.Saved && w.save != nil && w.save()
	if w.done > 0 && due || said.Ask != nil || saved { // what was done by then goes with a request for more time, and with a checkpoint
		w.told = time.Now()
		w.mu.Lock()
		err := w.tell(Reply{Progress: w.done, Ask: said.Ask, Saved: saved})
		w.mu.Unlock()
		if err != nil {
			return 0, err // the parent has gone
		}
	}
	if w.wanted {
		_, _ = w.said.Write(p) // never fails
		w.mu.Lock()
		if w.timer == nil {
			w.timer = time.AfterFunc(sayEvery, w.pass)
		}
		w.mu.Unlock()
	}
	return w.Tail.Write(p)
}

// pass tells what was said since it was told last.
func (w *guestWords) pass() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = nil
	for !w.ended {
		text, from := w.said.After(w.sent)
		if len(text) == 0 || w.tell(Reply{Said: text, Skipped: from - w.sent}) != nil {
			return // the guest's next report meets the error too
		}
		w.sent = from + uint64(len(text))
	}
}

// end tells the rest. Nothing is told afterwards.
func (w *guestWords) end() {
	w.pass()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended = true; w.timer != nil {
		w.timer.Stop()
	}
}
