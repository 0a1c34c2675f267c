package ends

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestAnswer has what an attempt gets that asks for more time, and why it gets none.
func TestAnswer(t *testing.T) {
	const timeout, most = 60 * time.Second, 540 * time.Second
	for _, c := range []struct {
		what   string
		state  Deadline
		before Asks
		ask    Ask
		done   bool
		most   time.Duration
		by     time.Duration
		denied string
		heard  bool
	}{
		{"what it wants", Deadline{}, Asks{}, Ask{1, 10 * time.Second}, true, most, 10 * time.Second, "", false},
		{"half the timeout at first", Deadline{}, Asks{}, Ask{1, 1e9 * time.Second}, true, most, 30 * time.Second, "", false},
		{"half of that next", Deadline{}, Asks{grants: 1}, Ask{1, 1e9 * time.Second}, true, most, 15 * time.Second, "", false},
		{"a second at last", Deadline{}, Asks{grants: 12}, Ask{1, 1e9 * time.Second}, true, most, time.Second, "", false},
		{"what the hard timeout leaves", Deadline{Extended: most - 3*time.Second}, Asks{}, Ask{1, 1e9 * time.Second}, true, most, 3 * time.Second, "", false},
		{"nothing is left", Deadline{Extended: most}, Asks{}, Ask{1, time.Second}, true, most, 0, "leaves no more", false},
		{"no hard timeout", Deadline{}, Asks{}, Ask{1, time.Second}, true, 0, 0, "no hard_timeout_seconds above", false},
		{"no progress", Deadline{}, Asks{}, Ask{1, time.Second}, false, most, 0, "no progress", false},
		{"no progress since", Deadline{Granted: 1}, Asks{}, Ask{1, time.Second}, true, most, 0, "since the last extension", false},
		{"asked before", Deadline{}, Asks{seen: 4}, Ask{4, time.Second}, true, most, 0, "", true},
		{"an older one", Deadline{}, Asks{seen: 4}, Ask{2, time.Second}, true, most, 0, "", true},
		{"too often", Deadline{}, Asks{answers: MaxAsks}, Ask{99, time.Second}, true, most, 0, "", true},
		{"the longest there is", Deadline{}, Asks{}, Ask{math.MaxInt, math.MaxInt64}, true, most, 30 * time.Second, "", false},
	} {
		by, denied, heard := c.state.Answer(&c.before, c.ask, c.done, timeout, c.most, time.Hour)
		if by != c.by || heard != c.heard || (denied == "") != (c.denied == "") || !strings.Contains(denied, c.denied) {
			t.Errorf("%s: %s, %q, %t; want %s, %q, %t", c.what, by, denied, heard, c.by, c.denied, c.heard)
		}
		if quiet := by > 0; c.before.Quiet(time.Hour) != quiet || c.before.Quiet(time.Hour+by) {
			t.Errorf("%s: silent for %s", c.what, c.before.Until-time.Hour)
		}
	}
}

// TestAnswersAgainstATwin: whatever an attempt asks, and whenever it gets on, each progress
// buys one extension at most, each grant is what the formula says, and all of them stay
// within the hard timeout.
func TestAnswersAgainstATwin(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		timeout := time.Duration(1+rng.Int64N(600)) * time.Second
		most := time.Duration(rng.Int64N(int64(2 * timeout)))
		var d Deadline
		var a Asks
		var sum time.Duration
		granted, answers, moved, done, now := 0, 0, false, false, time.Hour
		for n := 1; n < 100; n++ {
			switch rng.IntN(4) {
			case 0:
				d.Granted, moved, done = 0, true, true
			case 1: // the deadline came
				if by := d.Extension(most); done && by > 0 { // as the plan
					d.Extend(by)
					sum, moved = sum+by, false
				}
				continue
			}
			now += time.Second
			want := time.Duration(1 + rng.Int64N(int64(timeout)))
			by, denied, heard := d.Answer(&a, Ask{n, want}, done, timeout, most, now)
			if heard != (answers == MaxAsks) {
				t.Fatalf("seed %d: heard %t after %d answers", seed, heard, answers)
			}
			if heard {
				continue
			}
			answers++
			bound := max(1, timeout.Seconds()/math.Pow(2, float64(granted+1)))
			left := most - sum
			fair := min(want, time.Duration(bound*1e9), left)
			if by > 0 {
				if denied != "" || !moved || math.Abs(float64(by-fair)) > 2 {
					t.Fatalf("seed %d: %s for %s, want %s, denied %q, moved %t", seed, by, want, fair, denied, moved)
				}
				granted, sum, moved = granted+1, sum+by, false
			} else if denied == "" || moved && left >= MinExtension {
				t.Fatalf("seed %d: nothing for %s though %s are left, %q", seed, want, left, denied)
			}
		}
		if sum > max(most, 0) || sum != d.Extended {
			t.Fatalf("seed %d: %s in all, %s are left of the hard timeout", seed, sum, most)
		}
	}
}
