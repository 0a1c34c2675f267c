// Package stat counts what requests took and how they ended. Hist has a bucket for
// each 2.2 % of the times between a microsecond and an hour, the same buckets as
// the sketches of jobs (cluster/job), so that what is counted here merges with
// those of other hosts to the count. A Window is what ended within 100 ms; windows
// add up to the result, and a run of any length has the same size.
//
// Non-goals: deciding whether figures are good (load/rule), showing them
// (load/report).
//
// Goroutines: none. Who counts from several at once has a Bank for each and swaps
// them.
package stat
