package runner

import (
	"bytes"
	"strconv"
)

// ProgressMark begins a line of standard error that tells how many iterations
// of the chunk are done, in decimal.
const ProgressMark = "skein-progress "

// maxProgressLine bounds such a line.
const maxProgressLine = len(ProgressMark) + 20

// Progress finds progress in a stream of bytes.
type Progress struct {
	line []byte
	long bool // too long for a line of progress: wait for its end
}

// Scan returns the last progress told in p.
func (l *Progress) Scan(p []byte) (done uint64, ok bool) {
	for len(p) > 0 {
		part, rest, ended := bytes.Cut(p, []byte("\n"))
		p = rest
		if len(l.line)+len(part) > maxProgressLine {
			l.long = true
		} else if !l.long {
			l.line = append(l.line, part...)
		}
		if !ended {
			return done, ok
		}
		if digits, is := bytes.CutPrefix(l.line, []byte(ProgressMark)); is && !l.long {
			if n, err := strconv.ParseUint(string(bytes.TrimRight(digits, "\r ")), 10, 64); err == nil {
				done, ok = n, true
			}
		}
		l.line, l.long = l.line[:0], false
	}
	return done, ok
}
