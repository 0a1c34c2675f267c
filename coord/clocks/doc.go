// Package clocks reads this host's clocks at every turn of a loop and says what
// became of them: it counts and logs sleep of the machine, standstills of the
// process and jumps of the time of day, tells who must make up for them, and fails
// a self-check while the clocks are distrusted. Package clockwatch judges.
//
// Non-goals: setting a clock; what the others' clocks say, but for their median.
//
// Goroutines: none. Clocks belongs to one owner.
package clocks
