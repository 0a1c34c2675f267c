// Package outside is a computer that works for a cluster without being one of its hosts:
// `skein work`. It reaches gateways by HTTPS and WebSocket, and needs nothing that
// reaches it.
//
// It is a worker.Worker as a host has it, with its journal, its drain and its fence, and
// a session in the holder's place: what a gateway says becomes frames of stream.Proto, and
// what the worker says requests to the gateway. Each session is a stream of its own, in
// which the worker tells anew what it runs and keeps; so nothing is kept here, and after
// anything that was missed the next session tells all. A result is the worker's until the
// gateway says that it is settled.
//
// Terms on that stream are made here, one for each session: whom the gateway obeys is
// decided there.
//
// Goroutines: Run owns all of them, and has ended them when it returns.
package outside
