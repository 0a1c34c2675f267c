package wait

import (
	"math/rand/v2"
	"time"
)

// Bounds of Backoff.
const (
	backoffLeast = 100 * time.Millisecond
	backoffMost  = 10 * time.Second
)

// Backoff is the pause after the try number n, from 0: anything from nothing to a
// bound that doubles from 0.1 to 10 s, so that who failed at the same time comes back
// at another.
func Backoff(n int) time.Duration {
	most := backoffMost
	if n < 7 {
		most = min(most, backoffLeast<<max(n, 0))
	}
	return rand.N(most + 1)
}
