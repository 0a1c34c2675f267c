// Package descriptor reads, merges, builds and signs version 3 descriptors of
// onion services, and says which directories hold them when. It is pure:
// values in, values out; the clock and all entropy are arguments.
//
// One address, many hosts: every host has an onion service of its own, whose
// introduction points accept introductions for the master address as well. The
// publisher opens each host's descriptor (Parse, Open), chooses from their
// points (Merge), builds a descriptor of the master address around them
// (Build), looks at it once more as a client would (Check), and asks where it
// belongs (Consensus.Schedule, Consensus.Ring).
//
//	text = outer( certificate by the blinded key, revision,
//	              encrypted middle( client keys, encrypted inner( points )))
//
// Clients refuse a descriptor with more than MaxPoints, although directories
// store it, and map a circuit to the first point at its relay. So neither more
// points nor two at one relay ever leave Build or pass Check.
//
// Time. A blinded key belongs to a Period. Periods and the values that move the
// directories around are those of the consensus, from its valid-after time: a
// host whose clock is off agrees with those that it talks to. The clock judges
// certificates only.
//
// Limits of what is read: MaxSize for a descriptor, MaxConsensus and
// MaxMicrodescs for what comes from the own tor, and counts within. Line ends
// may be CR LF. A point that cannot be used is dropped and named in
// Descriptor.Dropped; everything else that is wrong refuses the input with one
// of the errors in errors.go.
//
// Secrets print as [redacted].
//
// Non-goals: reading anything but version 3; proof of work, since each host
// sets its own puzzle; verifying the consensus, which the own tor has done.
//
// Goroutines: none.
//
// Example:
//
//	sealed, err := descriptor.Parse(text, now)
//	period, err := sealed.Period(host, sched.Periods())
//	d, err := sealed.Open(host, period, nil, now)
//	picks := descriptor.Merge(candidates, 1, seed)
//	text, err = descriptor.Build(descriptor.Params{Key: master, Period: sched.First.Period, ...})
package descriptor
