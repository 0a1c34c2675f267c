// Package redis keeps the outside workers of a cluster in a Redis, so that gateways keep
// nothing of them: who is attached, what each has, results until their fate is known. Any
// gateway may die, and a worker may ask another one at any time.
//
// It does what package gateway/desk does in memory, by scripts (scripts/*.lua), each of which
// checks everything before it writes. To the gateways it is an rpc.Crew; to the holder it
// serves stream.CrewProto within the holder's own process. The holder's scripts carry its
// term, which the fence in Redis holds against the highest that was raised. The log stays
// the truth: a Redis that was emptied or set back is filled again by workers that attach anew
// and by the holder.
//
// What is pushed to a worker is published by the script that decides it, to the channel of
// the gateway at which the worker was last; the numbers of pushes show what got lost.
//
// It is a guard.Guard, too: what gateways of one name remember of those who ask.
//
// Non-goals: Redis Cluster; access for others than skein.
//
// Goroutines: Store.Run owns the connection, the subscription and the clock's tick, Serve one
// reader, one pump, one writer and one that runs its scripts for a holder's stream; they end
// with their contexts.
package redis
