package rule

import (
	"fmt"
	"math"
	"time"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/stat"
)

// Verdict is what a run comes to.
type Verdict string

// Verdicts.
const (
	Passed  Verdict = "passed"
	Failed  Verdict = "failed"  // a threshold is breached
	Aborted Verdict = "aborted" // by a threshold, by harm or by the target
	Suspect Verdict = "suspect" // all hold, but the generator is in doubt
	Stopped Verdict = "stopped" // by whoever started it
	// Incomplete: all hold, but a host that took part was lost.
	Incomplete Verdict = "incomplete"
)

// Self is what the generator knows of itself.
type Self struct {
	Late    *stat.Hist    // lateness of arrivals for which a user was free
	Latency float64       // median of all requests, seconds
	CPU     float64       // the most, over 10 s, of all processors
	Own     uint64        // requests that it could not send
	Gap     time.Duration // the longest time for which it stood still
	Slowed  string        // which limit slowed its users; empty: none
	When    stat.When
}

// in names the second of a run, from 0 on, in which a window ended.
func in(how string, at float64) string {
	if at <= 0 {
		return ""
	}
	return fmt.Sprintf(", %s second %d", how, int(math.Ceil(at))-1)
}

// Bounds of what is still believed of a generator.
const (
	lateLeast = 2 * time.Millisecond
	latePart  = 0.05
	cpuMost   = 0.85
	gapMost   = time.Second
)

// Doubts says why the figures may be the generator's rather than the target's.
func (s Self) Doubts() []string {
	var out []string
	if s.Late != nil && s.Late.N > 0 {
		bound := max(lateLeast.Seconds(), latePart*s.Latency)
		// Of few starts one alone is no doubt.
		if p := s.Late.Quantile(min(0.99, 1-1/float64(s.Late.N))); p > bound {
			out = append(out, fmt.Sprintf("the generator began requests %.1f ms late (p99; up to %.1f ms are fine)%s", p*1e3, bound*1e3, in("worst in", s.When.Late)))
		}
	}
	if s.CPU > cpuMost {
		out = append(out, fmt.Sprintf("the generator took %.0f %% of the processors (up to %.0f %% are fine)%s", s.CPU*100, cpuMost*100, in("most in the 10 s until", s.When.CPU)))
	}
	if s.Own > 0 {
		out = append(out, fmt.Sprintf("the generator could not send %d requests%s", s.Own, in("the first in", s.When.Own)))
	}
	if s.Gap > gapMost {
		out = append(out, fmt.Sprintf("the generator stood still for %s%s", s.Gap.Round(time.Millisecond), in("until", s.When.Gap)))
	}
	if s.Slowed != "" {
		out = append(out, s.Slowed+in("first in", s.When.Slowed))
	}
	return out
}

// NoneOK is an outcome that every run has to answer for: requests ended, and none
// as it should. Without thresholds it would pass.
func NoneOK(all *stat.Series) []Outcome {
	if all.Count() == all.Classes[load.Interrupted] || all.Classes[load.OK] > 0 {
		return nil
	}
	return []Outcome{{Text: "no request ended as it should"}}
}

// Decide comes to the verdict, and says why it is not passed. ended is why a run
// ended before its time.
func Decide(outcomes []Outcome, ended string, stopped bool, doubts []string) (Verdict, []string) {
	var why []string
	if ended != "" {
		why = append(why, ended)
	}
	breached := false
	for _, o := range outcomes {
		if !o.OK {
			breached = true
			why = append(why, "breached: "+o.Text)
		}
	}
	switch {
	case ended != "":
		return Aborted, why
	case breached:
		return Failed, why
	case stopped:
		return Stopped, append(why, "stopped before its time")
	case len(doubts) > 0:
		return Suspect, doubts
	}
	return Passed, nil
}
