// Package h2 has the connections of HTTP/2 that one user of a load test has, or all: requests go
// over them as net/http sends them, and who makes them is asked for each.
//
// Non-goals: where connections may lead (load/engine), HTTP/1.1 (load/h1), trying anything again.
//
// Goroutines: those of net/http for each connection, which end with it.
package h2
