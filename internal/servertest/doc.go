// Package servertest starts servers of other projects for tests, benchmarks and demos: in a
// directory of the caller, on unix sockets, as nobody where root may not run them. They
// die with this process.
//
// Non-goals: servers that outlive who started them. Goroutines: one per server, which ends with it.
package servertest
