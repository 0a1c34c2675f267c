// Package lease decides who may act for the cluster: the holder of the one
// lease, under a term that only rises. It is a pure core. Step takes a State,
// an Event and the local time, and returns the next State and the Actions to
// carry out, in order. A log of (event, now) replays to the same states.
//
//	          standAt                 majority               majority
//	idle ---------------> pre_vote ---------------> vote ---------------> hold
//	 ^  <---------------  no majority,       |        |                    |
//	 |      or a holder is heard             |        |         step_down, |
//	 |  <------------------------------------+        |            preempt v
//	 |  <---------------------------------------------+                 quiesce
//	 |                                                                     |
//	 +---- lease expired, higher term, better claim, self-check -----------+
//	 +---- released: Quiesced, or Timing.Quiesce has passed ---------------+
//
// A voter lets nobody else have the lease while its guard is live, and keeps
// a promise (highest term, to whom) on disk. A vote sets a short guard, a
// renewal one of a full lease. The holder counts each guard from the moment
// at which it sent the request, less a margin, so clocks may differ in rate
// and delays do not matter; guards are not on disk, hence a restarted voter
// waits one lease before it votes. Heartbeats, which arrive as PeerChanged,
// decide who stands first, and never who holds.
//
// The lease is the duty to schedule, which two hosts must never both have. The
// duty to publish is another one that follows from it, see Duty: the holder of a
// lease that is visible has it, and where none is, the best living host.
//
// Modes. A single voter holds alone. In quorum mode a majority of the
// configured voters grants. In available mode, which two voters have unless
// set otherwise, either may hold when it does not hear the other: terms stay
// unique, since each takes its own half of them, but two may hold at once
// until they meet; then the better one asks for a term above both. Available
// mode is for exactly two voters.
//
// Voters change by records ordered by (term, epoch), after TermReady and one
// voter at a time; each record must be persisted by enough of the old and of
// the new voters before the next. A new holder first issues the record that it
// knows anew in its own term. Alive hosts become voters up to the limit, best
// first; a voter goes only when it left for good.
//
// What a shell must do: write Persist durably before it carries out a later
// action, and report SelfCheck{OK: false} instead if it cannot; use a clock
// that runs during suspend; call Step with Tick no later than Deadline; ask
// MayAct right before each effect; verify the proof of a Release, also of one
// inside a vote, before it hands the message over.
//
// Non-goals: the network, the disk, signatures, the log, and who is alive.
//
// Goroutines: none. Order: actions are to be carried out in the order given.
//
// Example:
//
//	state, acts := lease.Step(state, lease.Tick{}, now)
//	for _, a := range acts {
//		carryOut(a)
//	}
//	wakeAt(lease.Deadline(state))
package lease
