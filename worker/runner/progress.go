package runner

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"github.com/skein-project/skein/cluster"
)

// What lines of standard error begin with that are more than words.
const (
	// ProgressMark is followed by how many iterations of the chunk are done, in decimal.
	ProgressMark = "skein-progress "
	// ExtendMark is followed by how many seconds more the chunk wants, and why.
	ExtendMark = "skein-extend "
	// CheckpointMark, a line by itself, says that a checkpoint is written.
	CheckpointMark = "skein-checkpoint"
)

// maxLine bounds what is kept of such a line.
const maxLine = len(ExtendMark) + 32 + cluster.MaxReason

// maxProgressLine bounds a line of progress.
const maxProgressLine = len(ProgressMark) + 20

// Ask is what a chunk says that wants more time.
type Ask struct {
	Seconds float64 `json:"seconds"` // above 0
	Reason  string  `json:"reason,omitempty"`
}

// Told is what a piece of standard error said beside words, the last of each.
type Told struct {
	Done  uint64 // iterations
	Moved bool   // Done was told
	Ask   *Ask   // nil: none
	Saved bool   // a checkpoint is written
}

// Progress finds progress, and requests for more time, in a stream of bytes.
type Progress struct {
	line []byte
	long bool // the line has more than is kept
}

// Scan returns what was told in p.
func (l *Progress) Scan(p []byte) (t Told) {
	for len(p) > 0 {
		part, rest, ended := bytes.Cut(p, []byte("\n"))
		p = rest
		if room := maxLine - len(l.line); len(part) > room {
			l.line, l.long = append(l.line, part[:room]...), true
		} else {
			l.line = append(l.line, part...)
		}
		if !ended {
			return t
		}
		l.read(&t)
		l.line, l.long = l.line[:0], false
	}
	return t
}

// read takes in a whole line.
func (l *Progress) read(t *Told) {
	if digits, is := bytes.CutPrefix(l.line, []byte(ProgressMark)); is && len(l.line) <= maxProgressLine {
		if n, err := strconv.ParseUint(string(bytes.TrimRight(digits, "\r ")), 10, 64); err == nil {
			t.Done, t.Moved = n, true
		}
		return
	}
	if string(bytes.TrimRight(l.line, "\r ")) == CheckpointMark {
		t.Saved = true
		return
	}
	if asked, is := bytes.CutPrefix(l.line, []byte(ExtendMark)); is {
		seconds, reason, _ := strings.Cut(strings.TrimSpace(strings.ToValidUTF8(string(asked), "?")), " ")
		if n, err := strconv.ParseFloat(seconds, 64); err == nil && n > 0 && !math.IsInf(n, 0) {
			t.Ask = &Ask{Seconds: n, Reason: clip(strings.TrimSpace(reason))}
		}
	}
}

// clip bounds a reason.
func clip(reason string) string {
	if len(reason) <= cluster.MaxReason {
		return reason
	}
	return strings.ToValidUTF8(reason[:cluster.MaxReason], "")
}
