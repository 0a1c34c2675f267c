package plan

// chunkState is the state of a chunk. Each chunk is in exactly one.
type chunkState uint8

const (
	pending  chunkState = iota // waits for a worker
	assigned                   // has one open attempt or more
	accepted                   // has a result
	givenUp                    // has none, and is no longer tried
	chunkStates
)

// String implements fmt.Stringer.
func (s chunkState) String() string {
	return [...]string{"pending", "assigned", "accepted", "given up"}[s]
}

// chunkMoves are the transitions of a chunk. What is missing is a broken
// invariant; accepted absorbs.
var chunkMoves = [chunkStates][chunkStates]bool{
	pending: {
		assigned: true, // an attempt was handed out, adopted or restored
		accepted: true, // a result of an attempt that was taken back before
		givenUp:  true, // the budget was spent by an attempt at it
	},
	assigned: {
		pending:  true, // the last attempt failed or was taken back
		accepted: true, // a valid result, confirmed where that is asked for
		givenUp:  true, // the budget is spent
	},
	givenUp: {
		pending:  true, // an operator released it
		accepted: true, // a result came after all
	},
}

// jobState is the state of a job that the plan has; one that ended has left it.
type jobState uint8

const (
	queued    jobState = iota // nothing was handed out yet
	running                   // something was
	completed                 // all that was asked for is accepted
	partial                   // a part of it is
	failed                    // nothing is
	cancelled                 // somebody stopped it
	timeout                   // its time was up
	jobStates
)

// String implements fmt.Stringer.
func (s jobState) String() string {
	return [...]string{"queued", "running", "completed", "partial", "failed", "cancelled", "timeout"}[s]
}

// jobMoves are the transitions of a job; the last five states absorb.
var jobMoves = [jobStates][jobStates]bool{
	queued:  {running: true, completed: true, partial: true, failed: true, cancelled: true, timeout: true},
	running: {completed: true, partial: true, failed: true, cancelled: true, timeout: true},
}
