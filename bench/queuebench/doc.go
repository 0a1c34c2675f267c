// Package queuebench compares the scheduler and its log with queues: Redis with
// a Lua script, asynq, river and NATS JetStream.
//
// Goroutines: producers and workers, which end with the round that started them.
package queuebench
