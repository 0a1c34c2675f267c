package coord

import (
	"slices"
	"time"

	"github.com/skein-project/skein/coord/wire"
)

const (
	// logSamples and caughtUpWithin say how old a state of this host's log may be
	// for a host that has it to count as caught up.
	logSamples     = 32
	caughtUpWithin = 3 * time.Second
)

// ownLog remembers the latest states of this host's log.
type ownLog struct {
	read    func() LogState
	within  time.Duration // that a host may be behind and count as caught up
	samples []logSample   // ring, newest last
}

// logSample is one of them.
type logSample struct {
	LogState
	at time.Duration
}

// newest is the newest sample.
func (l *ownLog) newest() LogState {
	if len(l.samples) == 0 {
		return l.read()
	}
	return l.samples[len(l.samples)-1].LogState
}

// sample notes the state of the log, at most every 50 ms.
func (l *ownLog) sample(now time.Duration) {
	if n := len(l.samples); n > 0 && now-l.samples[n-1].at < 50*time.Millisecond {
		return
	}
	if len(l.samples) == logSamples {
		l.samples = append(l.samples[:0], l.samples[1:]...)
	}
	l.samples = append(l.samples, logSample{LogState: l.read(), at: now})
}

// coveredBy reports whether a log with that digest, or as many events, lacks nothing
// that this host's has had for a few seconds.
func (l *ownLog) coveredBy(digest wire.Digest, events uint64, now time.Duration) bool {
	for _, old := range slices.Backward(l.samples) {
		if digest == wire.Digest(old.Digest) {
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
