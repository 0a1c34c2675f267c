package words

import (
	"bytes"
	"fmt"
	"sync"
)

// What is kept of one attempt, in bytes: its first and its last words.
const (
	First = 16 << 10
	Last  = 48 << 10
)

// Words collects what one attempt says. The zero value is ready.
type Words struct {
	mu   sync.Mutex
	head []byte // up to First
	// tail ends at total; it is cut to Last now and then, so that a byte is not moved
	// for each that comes.
	tail  []byte
	total uint64
	shut  bool // something was skipped: head stays as it is
}

// Write implements io.Writer.
func (w *Words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	w.total += uint64(n)
	if room := First - len(w.head); room > 0 && !w.shut {
		room = min(room, n)
		w.head = append(w.head, p[:room]...)
		p = p[room:]
	}
	if len(p) > Last {
		p = p[len(p)-Last:]
	}
	if w.tail = append(w.tail, p...); len(w.tail) > 2*Last {
		w.tail = append(w.tail[:0], w.tail[len(w.tail)-Last:]...)
	}
	return n, nil
}

// Skip says that n bytes were said that nobody kept.
func (w *Words) Skip(n uint64) {
	if n == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total, w.shut, w.tail = w.total+n, true, w.tail[:0]
}

// After returns a piece of what was said from byte at on, and where that begins: later
// than at if what lies between was not kept. What follows it begins at from+len(text).
func (w *Words) After(at uint64) (text []byte, from uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at < uint64(len(w.head)) {
		return bytes.Clone(w.head[at:]), at
	}
	tail := w.last()
	from = max(at, w.total-uint64(len(tail)))
	if from >= w.total {
		return nil, w.total
	}
	return bytes.Clone(tail[uint64(len(tail))-(w.total-from):]), from
}

// Said is what was said so far.
func (w *Words) Said() Said {
	w.mu.Lock()
	defer w.mu.Unlock()
	tail := w.last()
	return Said{Head: bytes.Clone(w.head), Tail: bytes.Clone(tail), Left: w.total - uint64(len(w.head)+len(tail))}
}

// last is what is kept of the end. The caller holds mu.
func (w *Words) last() []byte { return w.tail[max(0, len(w.tail)-Last):] }

// Said is what an attempt said: its first words, its last, and how many bytes lay
// between that are not kept.
type Said struct {
	Head, Tail []byte
	Left       uint64
}

// Empty reports that nothing was said.
func (s Said) Empty() bool { return len(s.Head)+len(s.Tail) == 0 && s.Left == 0 }

// Text is all of it, with a line for what is left out.
func (s Said) Text() []byte {
	if s.Left == 0 {
		return append(bytes.Clone(s.Head), s.Tail...)
	}
	return fmt.Appendf(bytes.Clone(s.Head), "\n[%d bytes are left out here]\n%s", s.Left, s.Tail)
}

// What is kept of a failure where it outlives the host, in bytes.
const (
	ShortFirst = 4 << 10
	ShortLast  = 12<<10 - 64 // and the line between them
	MaxShort   = 16 << 10
)

// Short is the text in at most MaxShort bytes.
func (s Said) Short() []byte {
	whole := append(bytes.Clone(s.Head), s.Tail...)
	if s.Left == 0 && len(whole) <= ShortFirst+ShortLast {
		return whole
	}
	if len(whole) <= ShortFirst+ShortLast { // what is left out lies between the two
		return s.Text()
	}
	first, last := whole[:ShortFirst], whole[len(whole)-ShortLast:]
	return Said{Head: first, Tail: last, Left: s.Left + uint64(len(whole)-len(first)-len(last))}.Text()
}
