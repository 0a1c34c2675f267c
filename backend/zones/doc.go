// Package zones tells how zones are: the holder judges them each second, by what its
// scheduler knows of the workers and coordination of the hosts, and is asked; the log
// hears of those that are lost.
//
// Non-goals: what makes a zone healthy, which scheduler/zone decides; where jobs run.
//
// Goroutines: Run is one, which ends with its context.
package zones
