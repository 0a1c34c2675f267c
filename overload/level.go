package overload

// Level is how loaded a host is.
type Level uint8

// Levels, the best first.
const (
	Normal   Level = iota
	Elevated       // watches are told less often
	High           // no new chunks, lists and followers; what can wait pauses
	Severe         // no submissions, and the lease goes to a calmer host
	Critical       // lease, stops, probes, results and the log, no more
)

// MaxLevel is the worst one.
const MaxLevel = Critical

// begins says at which score a level begins; the score goes to maxScore.
var begins = [...]float64{Normal: 0, Elevated: 2, High: 4, Severe: 6, Critical: 7}

const maxScore = 8.0

// strainedFrom is from which score on a host that is high is strained: in the half of the
// band that lies below severe.
const strainedFrom = 5.0

// names are how people and metrics read levels.
var names = [...]string{"normal", "elevated", "high", "severe", "critical"}

// String implements fmt.Stringer.
func (l Level) String() string {
	if int(l) >= len(names) {
		return "unknown"
	}
	return names[l]
}

// levelOf is the level in whose band a score lies.
func levelOf(score float64) Level {
	l := Normal
	for next := Elevated; next <= MaxLevel; next++ {
		if score >= begins[next] {
			l = next
		}
	}
	return l
}

// Slows says that watches are told at most once a second.
func (l Level) Slows() bool { return l >= Elevated }

// Pauses says that what can wait does: checks of the whole log, the collection of old
// segments, snapshots that nobody asked for. A host whose processors are full of chunks
// is elevated for days, in which the log must not grow without bound; from high on it takes no
// more of them, so that the pause ends.
func (l Level) Pauses() bool { return l >= High }

// TakesChunks says that the worker may be given more.
func (l Level) TakesChunks() bool { return l < High }

// GivesUpLease says that a holder hands the lease to a host that is calmer.
func (l Level) GivesUpLease() bool { return l >= Severe }

// MayHold says that the host may stand for the lease.
func (l Level) MayHold() bool { return l < Critical }

// Told says that the log hears when a host gets to this level, or leaves it: what lies
// below comes and goes with the work.
func (l Level) Told() bool { return l >= High }
