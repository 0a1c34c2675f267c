package wait

import (
	"testing"
	"time"
)

// TestBackoff: pauses keep to the bound of their try, and lie all over what is below it.
func TestBackoff(t *testing.T) {
	for n, most := range map[int]time.Duration{
		-1: 100 * time.Millisecond, 0: 100 * time.Millisecond, 1: 200 * time.Millisecond, 6: 6400 * time.Millisecond,
		7: 10 * time.Second, 1000: 10 * time.Second,
	} {
		// Of 1,000 each quarter gets 250 on average; fewer than 125 is 9 deviations away.
		var quarters [4]int
		for range 1000 {
			d := Backoff(n)
			if d < 0 || d > most {
				t.Fatalf("try %d: %v, want at most %v", n, d, most)
			}
			quarters[min(3, int(4*d/most))]++
		}
		for i, got := range quarters {
			if got < 125 {
				t.Errorf("try %d: %d of 1000 in quarter %d of %v", n, got, i+1, most)
			}
		}
	}
}
