// Package overload decides how loaded a host is, and what it does less of. It is
// pure: Step takes what was measured in a second and returns a new State, from which
// the Level comes; a Level says which Lanes are refused and what pauses.
//
// Which signal means overload: that everything waits. A queue is full for a moment
// whenever work comes in bursts, so what counts is the least delay of half a second
// (as in CoDel): only a queue that never empties has a high one. What the kernel
// says of stalls and of memory counts beside it, as that comes before the delay.
//
// What is usual on a host is learnt over ten minutes, and only while the host is
// normal: an overload that lasts never becomes what is usual. A slow host is not
// overloaded by being slow, so a delay counts from three times the usual one on, but
// what is usual never rises above the configured delay.
//
//	normal --2 s--> elevated --2 s--> high --2 s--> severe --2 s--> critical
//	      <--10 s--         <--10 s--     <--10 s--       <--10 s--
//
// Each step up takes 2 s in which the score is in a higher band, each step down 10 s
// in which it is below 0.7 of where the present one begins.
//
// Non-goals: it measures nothing (package pressure does), limits nothing by itself
// (package pressure/gate does), and knows nothing of other hosts.
package overload
