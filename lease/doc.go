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
// set otherwise, and more if asked for, every part of a cut may hold: terms
// stay unique, since each voter has a slot and takes only terms of it, but two
// may hold at once until they meet; then the better one asks for a term above
// both. The mode follows from the number of voters in the record, never from
// who is seen. Two voters in quorum mode need each other: a third host as
// witness makes that bearable.
//
// A voter that goes without a word, for good or on an operator's wish, may have
// taken terms that nobody heard of, or may still. Its slot is spent then: no
// other gets it, and the voters keep slots, also by majority.
//
// Voters change by records ordered by (term, epoch), after TermReady and one
// voter at a time; each record must be persisted by enough of the old and of
// the new voters before the next, in available mode by all that are wanted
// still or alive. Between available and quorum mode lies a record that goes by
// majority and has slots, which all must have: see (*machine).next. A new
// holder first issues the record that it knows anew in its own term.
//
// Who votes. Up to seven hosts all that live; of more, MaxVoters or five, best
// first, no zone with a majority if there are three, and beyond a few only who
// has been there for PreemptDelay. A voter that lives stays. One that was
// silent for Timing.Replace gives its place to another host, one for one; the
// number shrinks only because a host left for good, or by an operator's
// SetVoters. What is wanted is in the record, so the next holder goes on.
//
// A lost vote record. A voter that does not know what it promised (see
// Options.Lost and VoteLost) grants and acknowledges nothing, says so in its
// answers, and stores that it does. The holder takes it out of the record, by
// a majority that does not count it, and then in again as a new voter. It
// abstains for one lease at least: guards that it forgot run out meanwhile. Of
// two voters in available mode the other one goes on and does the same. A
// single voter that loses its record stops; so do voters that all lost theirs,
// or too many of them for a majority. Then an operator must say who votes,
// unless the host is alone in its cluster: it begins anew above the terms of
// its log.
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
