// Package gateway is where workers that no host runs, and their owners, reach this host by
// HTTP. It says who asks, lets workers register, owners claim them, and gives workers
// short tokens; rooms below it decide (gateway/auth), count (gateway/guard), read the log
// (gateway/registry) and serve the holder (gateway/crew).
//
// Whoever asks is a stranger. All bodies are bounded and read once, unknown fields are
// refused, an address, a worker and an owner may ask only so often, and nothing that a
// stranger says alone is logged as an event: claims that are open are in a guard.Guard, which
// several gateways may share. The event of a worker is the holder's, by an access token that
// the holder checks itself.
//
// Non-goals: jobs of users, which are handed to package status, as they come, with the
// proof; browsers' pages (package web).
//
// Goroutines: Run serves, one goroutine keeps the key, and one ends the connections of
// workers that are shut out; all end with its context. Handlers are net/http's.
package gateway
