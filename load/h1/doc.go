// Package h1 is an HTTP/1.1 client for load tests: one request at a time on a
// connection, answers read into memory that is used again, the time of each part,
// and nothing that happens by itself: no retry, no redirect, no decompression. A
// steady request allocates nothing.
//
// What a target sends is not trusted: heads, chunk lines, trailers and interim
// answers are bounded, and what is not HTTP to the letter ends the connection. It
// takes less than net/http does, never anything that net/http refuses.
//
// Non-goals: dialling, TLS, which address is right (load/engine), HTTP/2.
//
// Goroutines: none. A Conn and a Response belong to one goroutine; closing the
// connection from another ends what it waits for.
package h1
