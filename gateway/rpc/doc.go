// Package rpc is what outside workers ask of a gateway, whichever way they reach it: a
// table of methods (api.WorkAttach and the others) in front of a crew (gateway/crew), and
// the way back of what workers are told unasked. Who asks has been authenticated.
//
// A session that was begun over a connection is lost with it; one that was begun by HTTP
// when nothing is heard of it.
//
// Goroutines: one for each session, which hands out its pushes; Close ends them.
package rpc
