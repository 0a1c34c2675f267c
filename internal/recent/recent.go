package recent

import (
	"bytes"
	"slices"
	"sync"

	"github.com/rs/zerolog"
)

// Bounds of what is kept. Longer lines are cut.
const (
	MaxLines = 2000
	MaxLine  = 2 << 10
)

// Log keeps lines. The zero value is ready to use; its methods may be called from any
// goroutine.
type Log struct {
	mu    sync.Mutex
	lines [][]byte // guarded by mu; a ring once it is full
	next  int      // the oldest then; guarded by mu
}

// Write implements io.Writer; nothing is known of the level, so nothing is kept.
func (l *Log) Write(p []byte) (int, error) { return len(p), nil }

// WriteLevel implements zerolog.LevelWriter.
func (l *Log) WriteLevel(level zerolog.Level, p []byte) (int, error) {
	if level < zerolog.WarnLevel || level == zerolog.NoLevel || level == zerolog.Disabled {
		return len(p), nil
	}
	line := bytes.Clone(bytes.TrimRight(p[:min(len(p), MaxLine)], "\n"))
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) < MaxLines {
		l.lines = append(l.lines, line)
		return len(p), nil
	}
	l.lines[l.next] = line
	l.next = (l.next + 1) % MaxLines
	return len(p), nil
}

// Text returns the lines, the oldest first.
func (l *Log) Text() []byte {
	l.mu.Lock()
	lines := slices.Concat(l.lines[l.next:], l.lines[:l.next])
	l.mu.Unlock()
	if len(lines) == 0 {
		return nil
	}
	return append(bytes.Join(lines, []byte("\n")), '\n')
}
