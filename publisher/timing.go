package publisher

import "time"

// Timing is every duration of publishing.
type Timing struct {
	// Coalesce is how long changes are gathered, MinGap the least time between
	// two descriptors on average: Burst of them may follow each other without
	// it, as when all hosts replace their points at the start of a day, within
	// seconds. What a descriptor lists in the meantime and is gone makes clients
	// wait.
	Coalesce, MinGap time.Duration
	Burst            int
	// Period is the time between descriptors when nothing changes, give or take
	// Jitter.
	Period, Jitter time.Duration
	// RetryMin and RetryMax bound the waiting before a directory that failed is
	// tried again; it doubles each time.
	RetryMin, RetryMax time.Duration
	// Answer is how long a directory may take to answer.
	Answer time.Duration
	// Yield is how long a publisher of an earlier term leaves the address to
	// one of a later term that publishes nothing new. It is longer than Period
	// and Jitter, and shorter than the lifetime of a descriptor. One that holds a
	// lease that only one host can hold waits for HolderYield, longer than any lease
	// lasts: whoever has a later term by then is not of this cluster, as it is now.
	Yield, HolderYield time.Duration
}

// DefaultTiming returns the durations that the network expects.
func DefaultTiming() Timing {
	return Timing{
		Coalesce: 500 * time.Millisecond, MinGap: 5 * time.Second, Burst: 4,
		Period: time.Hour, Jitter: 10 * time.Minute,
		RetryMin: 5 * time.Second, RetryMax: 5 * time.Minute,
		Answer: 15 * time.Second, Yield: 80 * time.Minute, HolderYield: 2 * time.Minute,
	}
}

// backoff is the waiting after the n-th failure in a row, from 1, with up to a
// quarter taken off by chance.
func (t Timing) backoff(n int, chance uint64) time.Duration {
	d := t.RetryMin
	for i := 1; i < n && d < t.RetryMax; i++ {
		d *= 2
	}
	d = min(d, t.RetryMax)
	return d - time.Duration(chance%1024)*(d/4)/1024
}
