// Package demo runs real daemons on this machine, each a process with its own
// state directory, and drives them as an operator would: by commands and through
// the API. Run loses the lease holder in the middle of a job and checks that
// nothing was lost; Show goes on losing it while somebody looks at the page; RunOnion
// serves an onion address on a private Tor network and loses the host that publishes
// it.
//
// The package's tests use the same hosts for what only several whole daemons can
// show: they need the program, which they build unless SKEIN_BIN names where it is.
//
// It imports neither the daemon nor any part of it.
//
// Goroutines: one per daemon waits for its process and ends with it; one per web
// server of RunOnion ends when the server is closed; one client of RunOnion ends
// when the next publisher was found; those of Show, for the page, the jobs, the mishaps
// and what passes between hosts, end with its context. All have ended when Run, Show or
// RunOnion returns.
package demo
