// Package centrifugo hands the connections of outside workers to a Centrifugo v5, which keeps
// far more of them than this process could. It does for a gateway what gateway/push does.
//
// A worker connects to Centrifugo with the token that a gateway gave it. What it asks there
// Centrifugo asks here (its proxies: connect, refresh, subscribe, rpc), at an address of its
// own that shows a secret. What a worker is told is published by Centrifugo's API, in batches;
// what cannot be within a while is dropped: the worker sees by the numbers that it missed it.
//
// Centrifugo tells nobody that a connection has ended, so a session is lost when nothing is
// heard of it. Centrifugo checks tokens by itself, so who is shut out could connect again
// until its token ends: it is put out by the first thing that it asks.
//
// Non-goals: running a Centrifugo; File says how it is to be configured.
//
// Goroutines: Start starts those that publish, one that looks whether Centrifugo is there, and
// the server of the proxies, which is net/http's; all end with Stop.
package centrifugo
