// Package relay tells those who listen at a gateway how the cluster and their jobs are. It
// reads the stream of changes that package realtime has for all watchers, only while somebody
// listens, and publishes what is about channels to which somebody does, by whoever keeps the
// connections.
//
// What it publishes says how something is now, never a difference: who missed something, or
// heard it twice because two gateways took turns, has the truth with the next message. Who
// begins to listen is told within a second.
//
// Non-goals: who may listen (gateway/channel), connections (gateway/push, gateway/centrifugo).
//
// Goroutines: Run, and one that reads the stream while somebody listens; it ends with Run, or
// when nobody listens any more.
package relay
