package forward

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/skein-project/skein/api"
)

// A stream of frames is lines of JSON: {"frame":...} any number of times, then
// {"end":true} or {"problem":...}. Both sides send an empty line every keepalive
// to show that they are still there; the asker sends nothing else. Closing the
// stream cancels the operation.

// MaxFrame bounds a frame, in bytes.
const MaxFrame = 1 << 20

// Times of a stream.
const (
	keepalive = 5 * time.Second
	// silence is how long the other side may send nothing, or take to send one
	// line.
	silence = 15 * time.Second
	// stall is how long writing one line may take.
	stall = 10 * time.Second
)

// line is one line that is not empty.
type line struct {
	Frame json.RawMessage `json:"frame,omitempty"`
	End   bool            `json:"end,omitempty"`
	failure
}

// Errors of streams.
var (
	errSlow     = errors.New("it does not read")
	errSilent   = errors.New("it was silent for too long")
	errProtocol = errors.New("it does not follow the protocol")
	errGone     = errors.New("it closed the stream")
	errLong     = fmt.Errorf("%w: a line of more than %d bytes", errProtocol, MaxFrame)
)

// lineWriter writes lines, each within stall. It is safe for concurrent use.
type lineWriter struct {
	conn net.Conn
	// busy is a lock that guards what follows: capacity 1, full while a line is
	// written.
	busy chan struct{}
	last time.Time // when the last line was written
	err  error     // of an earlier line: the stream is broken
}

func newLineWriter(conn net.Conn) *lineWriter {
	return &lineWriter{conn: conn, busy: make(chan struct{}, 1), last: time.Now()}
}

// frame writes {"frame":v}.
func (w *lineWriter) frame(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(text) > MaxFrame-64 {
		return api.Errorf(api.CodeTooLarge, "an answer of %d bytes, at most %d fit a frame", len(text), MaxFrame-64)
	}
	return w.line(fmt.Appendf(nil, "{\"frame\":%s}", text))
}

// line writes one line.
func (w *lineWriter) line(text []byte) error {
	w.busy <- struct{}{}
	defer func() { <-w.busy }()
	return w.write(text)
}

// alive writes an empty line if none was written for keepalive and none is
// being written.
func (w *lineWriter) alive() error {
	select {
	case w.busy <- struct{}{}:
	default:
		return nil
	}
	defer func() { <-w.busy }()
	if time.Since(w.last) < keepalive {
		return w.err
	}
	return w.write(nil)
}

func (w *lineWriter) write(text []byte) error {
	if w.err != nil {
		return w.err
	}
	w.last = time.Now()
	_ = w.conn.SetWriteDeadline(w.last.Add(stall)) // a stream always has deadlines
	_, err := w.conn.Write(append(text, '\n'))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.err = errSlow
	case err != nil:
		w.err = fmt.Errorf("%w: %w", errGone, err)
	}
	return w.err
}

// lineReader reads lines of at most MaxFrame bytes.
type lineReader struct {
	r   *bufio.Reader
	buf []byte
}

func newLineReader(r io.Reader) *lineReader { return &lineReader{r: bufio.NewReader(r)} }

// next returns the next line that is not empty. It calls empty for each line that
// is.
func (l *lineReader) next(empty func() error) (line, error) {
	for {
		l.buf = l.buf[:0]
		for {
			part, err := l.r.ReadSlice('\n')
			if len(l.buf)+len(part) > MaxFrame {
				return line{}, errLong
			}
			l.buf = append(l.buf, part...)
			if err == nil {
				break
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				return line{}, err
			}
		}
		if len(l.buf) == 1 {
			if err := empty(); err != nil {
				return line{}, err
			}
			continue
		}
		var x line
		if err := json.Unmarshal(l.buf, &x); err != nil {
			return line{}, fmt.Errorf("%w: %w", errProtocol, err)
		}
		return x, nil
	}
}
