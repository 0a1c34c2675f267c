// Package push is the connections that outside workers keep open to this gateway: they
// ask over them, and hear what they are told unasked. It speaks the protocol of Centrifuge
// over WebSocket, so that its client libraries serve.
//
// A connection shows a worker's token, and ends with it unless a newer one comes in time.
// It may ask what Options.Call knows and listen to its own channel, node: and the worker's
// id; nothing is published by clients, and nothing is kept for those who were away: who
// comes back attaches anew and is told all. Who asks far too often, whatever it is, loses
// its connections.
//
// Goroutines: those of Centrifuge, which end with Stop.
package push
