// Package loadbench compares load tests of skein with those of k6, vegeta, hey and
// wrk: what a request costs the one who sends it, what a thousand users need, and what
// each tells of a target that stood still for a second.
//
// Every client is a process of its own, the target too. A tool that is not there is a
// skipped row.
//
// Goroutines: none of its own; processes end with their round.
package loadbench
