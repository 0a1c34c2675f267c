// Package gate lets in as many requests at once as this host can do in time, by lane, and
// refuses what a level of load sheds.
//
// How many run at once in a lane is found out (an adaptive limiter of failsafe-go): as
// many as do not make each other slower. Who comes when all places are taken waits a
// moment, and the more wait the more are refused at once, with the time in which what is
// ahead of them is done at the rate of the last seconds. Control has 16 places of its
// own, so that no flood of anything else keeps a stop out.
//
// Back-pressure: nobody waits longer than maxWait, and no more wait than a multiple of
// the places; what is more is refused and counted.
//
// Non-goals: it knows nobody and nothing of who asks: limits of users are status/door's,
// those of members package forward's. What lasts, as watches, has places of its own there.
//
// It has no goroutines but those of its limiters' timers.
package gate
