package vital

// Signal says how a worker gets on with what it has, the third of the signals
// that decide what it gets: live, ready, progressing.
type Signal uint8

// Values of Signal.
const (
	Idle     Signal = iota // it has nothing to do
	Normal                 // results come as fast as its rate lets expect
	Slow                   // they take more than twice as long
	Degraded               // they take more than four times as long
	Stuck                  // it has work, and nothing comes
)

// String implements fmt.Stringer.
func (s Signal) String() string {
	return [...]string{"idle", "normal", "slow", "degraded", "stuck"}[s]
}

// Verdict is what the three signals mean for a worker.
type Verdict string

// Values of Verdict.
const (
	VerdictRoute       Verdict = "route"       // it gets work
	VerdictInvestigate Verdict = "investigate" // it gets work, later than others
	VerdictDrain       Verdict = "drain"       // it finishes what it has
	VerdictEvict       Verdict = "evict"       // what it has runs elsewhere
)

// Judge decides by live, ready and progressing.
func Judge(live, ready bool, s Signal) Verdict {
	switch {
	case !live, s == Stuck:
		return VerdictEvict
	case !ready:
		return VerdictDrain
	case s == Slow, s == Degraded:
		return VerdictInvestigate
	}
	return VerdictRoute
}
