// Package channel is what the connections of outside workers have in common, whoever keeps
// them: a gateway itself (gateway/push) or a Centrifugo (gateway/centrifugo). It says who may
// listen to what, how the protocol of both says that something failed, and how often a worker
// may ask.
//
// Non-goals: connections; what workers ask (gateway/rpc). It keeps nothing.
package channel
