package door

import (
	"time"

	"github.com/skein-project/skein/internal/bucket"
)

// Pace says for which limit a request counts. Those up to Invite are of a user, over
// all that this host serves the user, also what other hosts bring; the others are of
// an address.
type Pace uint8

// Paces.
const (
	Other   Pace = iota
	Submit       // of a job
	Stream       // watches and what follows something
	Invite       // of a host
	Unknown      // nobody proved to ask
	Refused      // the proof was refused
)

// paces are the limits. A burst is what a command or a page asks at once.
var paces = [...]struct {
	name string
	bucket.Rate
}{
	Other:   {"other", bucket.Rate{PerSecond: 20, Burst: 200}},
	Submit:  {"submit", bucket.Rate{PerSecond: 10, Burst: 100}},
	Stream:  {"watch", bucket.Rate{PerSecond: 50, Burst: 100}},
	Invite:  {"invite", bucket.Rate{PerSecond: 10.0 / 60, Burst: 10}},
	Unknown: {"address", bucket.Rate{PerSecond: 20, Burst: 200}},
	Refused: {"proof", bucket.Rate{PerSecond: 20.0 / 60, Burst: 20}},
}

// Paces names the limits, as metrics do.
func Paces() []string {
	var names []string
	for _, p := range paces {
		names = append(names, p.name)
	}
	return names
}

// maxCounted bounds who is counted at once. A user or address that has asked for
// nothing of late needs no place; whoever finds none counts together with all
// others who find none, so that a flood from many addresses frees nobody.
const maxCounted = 8192

// sweepEvery is how often places are made free at most.
const sweepEvery = time.Second

// limits counts requests. The zero value has counted none. It is guarded by its owner.
type limits struct {
	used  map[countOf]*bucket.Bucket
	swept time.Duration
}

type countOf struct {
	pace Pace
	who  string // empty: all who found no place
}

// at returns the count of somebody.
func (l *limits) at(pace Pace, who string, now time.Duration) *bucket.Bucket {
	id := countOf{pace, who}
	if b := l.used[id]; b != nil {
		return b
	}
	if len(l.used) >= maxCounted && now-l.swept >= sweepEvery {
		l.swept = now
		for id, b := range l.used {
			if b.Left(paces[id.pace].Rate, now) >= paces[id.pace].Burst {
				delete(l.used, id)
			}
		}
	}
	if len(l.used) >= maxCounted {
		if id.who = ""; l.used[id] != nil {
			return l.used[id]
		}
	}
	if l.used == nil {
		l.used = map[countOf]*bucket.Bucket{}
	}
	b := &bucket.Bucket{}
	l.used[id] = b
	return b
}

// take counts a request of somebody. It returns how long to wait if it is one too
// many, which does not count; 0: it is not.
func (l *limits) take(pace Pace, who string, now time.Duration) time.Duration {
	b := l.at(pace, who, now)
	if b.Take(paces[pace].Rate, now) {
		return 0
	}
	return max(time.Millisecond, b.Wait(paces[pace].Rate, 1, now))
}

// wait is how long somebody has to wait for the next request; 0: not at all.
func (l *limits) wait(pace Pace, who string, now time.Duration) time.Duration {
	if l.used[countOf{pace, who}] == nil && len(l.used) < maxCounted {
		return 0
	}
	return l.at(pace, who, now).Wait(paces[pace].Rate, 1, now)
}
