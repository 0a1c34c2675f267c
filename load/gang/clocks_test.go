package gang

import (
	"math/rand/v2"
	"testing"
)

// TestBegun: whatever the clocks of hosts say, a holder that finds some slices told when to begin
// knows that instant, to what its readings are uncertain by; where none was told, the run has not
// begun.
func TestBegun(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		truth, most := rng.Int64N(1e12), int64(0)
		found := make([]Found, 1+rng.IntN(6))
		told, read := false, false
		for i := range found {
			ahead, unsure := rng.Int64N(1e15)-5e14, rng.Int64N(1e7)
			f := Found{Clock: Reading{Ahead: ahead + rng.Int64N(2*unsure+1) - unsure, Uncertain: unsure, OK: rng.IntN(4) > 0}}
			switch f.Stage = []Stage{"", Unknown, Ready, Armed, Running, Done, Broken}[rng.IntN(7)]; f.Stage {
			case Armed, Running, Done:
				told = true
				f.Begins = truth + ahead
				read = read || f.Clock.OK
			}
			if most = max(most, unsure); !f.Clock.OK {
				f.Clock = Reading{}
			}
			found[i] = f
		}
		at, begun, known := Begun(found)
		if begun != told || known != read {
			t.Fatalf("begun %t, known %t, want %t and %t: %+v", begun, known, told, read, found)
		}
		if known && (at-truth > most || truth-at > most) {
			t.Fatalf("%d, it begins at %d, read to %d: %+v", at, truth, most, found)
		}
	}
}

// TestSlewTwin: two hosts, one of which has a clock that runs fast, have windows that are apart by no
// more than readings are uncertain by; what is within that changes nothing.
func TestSlewTwin(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		at, ahead := rng.Int64N(1e12), rng.Int64N(1e15)
		begins, slew, fast := at+ahead, int64(0), rng.Float64()*1e-4-5e-5
		for now := int64(0); now < 3600e9; now += 10e9 {
			drift := int64(float64(now) * fast)
			unsure := rng.Int64N(1e6)
			before := slew
			slew = Slew(at, begins, Reading{ahead + drift + rng.Int64N(2*unsure+1) - unsure, unsure, rng.IntN(5) > 0}, slew)
			if step := slew - before; step != 0 && max(step, -step) > 50*10e9/1e6*100 {
				t.Fatalf("moved by %d ns at once", step)
			}
		}
		// The last readings may not have come, and are unsure by a millisecond.
		if d := slew - int64(3590e9*fast); d > 2e6+6*5e5 || d < -2e6-6*5e5 {
			t.Fatalf("windows are %d ns beside where they should be, with a clock that is %g fast", d, fast)
		}
	}
	if got := Slew(100, 50, Reading{Ahead: 1e18, OK: true}, 0); got != int64(MaxSlew) {
		t.Errorf("%d", got)
	}
}
