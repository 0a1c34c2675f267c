// Package rule has the thresholds of a load test and its verdict: what is asked of
// the result, whether it holds, since when it does not, and what a run comes to.
//
//	pay: p(99)<0.8s
//	rate(failed)<1%
//
// Non-goals: counting (load/stat), ending a run: Judge says that it must.
//
// Goroutines: none.
package rule
