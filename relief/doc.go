// Package relief makes a host bend before it breaks: it measures how loaded the host is,
// tells the others, the log and people, and carries out what package overload says that
// follows.
//
// What follows lies with those whom it concerns, who ask Level: the worker, the API, what
// other hosts ask, and whatever can pause. Here is what concerns the lease: a holder that
// is severe hands it to the calmest voter, and a host that is worse does not stand while
// a calmer one could hold.
//
// Non-goals: it limits no request (package pressure/gate does), and moves no work: the
// scheduler gives nothing more to a worker that is not ready.
//
// Goroutines: Run is one, the monitor's another, with those that it has; all end with
// Run's context.
package relief
