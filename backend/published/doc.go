// Package published knows how the publishing of the onion addresses goes, on any
// host: from what their publishers write in the log.
//
// Non-goals: publishing, and what a publisher knows of its own work (package onion).
//
// Goroutines: none of its own. Run reads what is new in the log, every five seconds at
// most, and ends with its context; Summary may be called by anybody.
//
//	p := published.New(published.Options{Log: log, Served: addresses})
//	go p.Run(ctx)
//	p.Summary()
package published
