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
//	 +---- expired, higher term, better claim, self-check -----------------+
//	 +---- released: Quiesced, or Timing.Quiesce has passed ---------------+
//
// docs/lease.md explains guards and promises, the modes, how voters change and
// what happens to a voter that lost its record. The lease is the duty to
// schedule, which two hosts must never both have; the duty to publish follows
// from it, see Duty.
//
// What a shell must do: write Persist durably before it carries out a later
// action, and report SelfCheck{OK: false} instead if it cannot; use a clock
// that runs during suspend; call Step with Tick no later than Deadline; ask
// MayAct right before each effect; verify the proof of a Release, also of one
// inside a vote, and of a voter configuration before it hands the message over;
// sign the configurations that this host issues; hand no message over that was
// sent before this host started.
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
