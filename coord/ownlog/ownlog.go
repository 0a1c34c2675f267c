package ownlog

import (
	"slices"
	"time"
)

const (
	// logSamples and caughtUpWithin say how old a state of this host's log may be
	// for a host that has it to count as caught up.
	logSamples     = 32
	caughtUpWithin = 3 * time.Second
)

// State is the local event log in brief.
type State struct {
	Digest [16]byte // over the heads of all sources
	// Events is the number of events of all sources together: a host that has
	// as many as the holder had a few seconds ago counts as caught up.
	Events uint64
}

// Log remembers the latest states of this host's log. It belongs to one owner.
type Log struct {
	read    func() State
	within  time.Duration
	samples []logSample // ring, newest last
}

// New returns a Log of what read says, for rounds of heartbeats that far apart. It
// remembers nothing yet.
func New(read func() State, every time.Duration) *Log {
	return &Log{read: read, within: max(caughtUpWithin, 2*every)}
}

// Within is how far a host may be behind, and count as caught up.
func (l *Log) Within() time.Duration { return l.within }

// logSample is one of them.
type logSample struct {
	State
	at time.Duration
}

// Newest is the newest sample.
func (l *Log) Newest() State {
	if len(l.samples) == 0 {
		return l.read()
	}
	return l.samples[len(l.samples)-1].State
}

// Sample notes the state of the log, at most every 50 ms.
func (l *Log) Sample(now time.Duration) {
	if n := len(l.samples); n > 0 && now-l.samples[n-1].at < 50*time.Millisecond {
		return
	}
	if len(l.samples) == logSamples {
		l.samples = append(l.samples[:0], l.samples[1:]...)
	}
	l.samples = append(l.samples, logSample{State: l.read(), at: now})
}

// CoveredBy reports whether a log with that digest, or as many events, lacks nothing
// that this host's has had for a few seconds.
func (l *Log) CoveredBy(digest [16]byte, events uint64, now time.Duration) bool {
	for _, old := range slices.Backward(l.samples) {
		if digest == old.Digest {
			return true
		}
		if events >= old.Events && old.Events > 0 {
			return true
		}
		if now-old.at > l.within {
			break
		}
	}
	return false
}
