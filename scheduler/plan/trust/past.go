package trust

import (
	"time"

	"github.com/skein-project/skein/cluster/job"
)

// MaxPast is how many attempts of strangers are remembered of a chunk.
const MaxPast = 8

// Past is the attempts that strangers had at a chunk and that were taken back, the latest
// of them: what they send of these is welcome.
type Past []struct {
	ref   job.Attempt
	began time.Duration
}

// Add takes in one that began then.
func (p *Past) Add(ref job.Attempt, began time.Duration) {
	*p = append(*p, struct {
		ref   job.Attempt
		began time.Duration
	}{ref, began})
	if len(*p) > MaxPast {
		*p = (*p)[1:]
	}
}

// Began is when one began.
func (p Past) Began(ref job.Attempt) (at time.Duration, ok bool) {
	for _, a := range p {
		if a.ref == ref {
			return a.began, true
		}
	}
	return 0, false
}
