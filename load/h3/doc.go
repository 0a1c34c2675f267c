// Package h3 has the connections of HTTP/3 (RFC 9114, over QUIC, RFC 9000) that one user of a load
// test has, or all: one to an origin at a time, made when a request needs it.
//
// Non-goals: where connections may lead (load/reach), what else goes over them than requests (0-RTT,
// datagrams, pushes, other paths), finding out that a target speaks HTTP/3, trying anything again.
//
// Goroutines: those of quic-go for each connection, which end with it, and its socket with them.
package h3
