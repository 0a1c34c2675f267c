package fastest

import "time"

// Of calls once n times in each of rounds, and returns the mean of the fastest round.
// What once returns is what counts of it.
func Of(rounds, n int, once func() time.Duration) time.Duration {
	best := time.Duration(-1)
	for range rounds {
		var sum time.Duration
		for range n {
			sum += once()
		}
		if each := sum / time.Duration(n); best < 0 || each < best {
			best = each
		}
	}
	return best
}
