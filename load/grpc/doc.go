// Package grpc makes the messages of gRPC calls (https://github.com/grpc/grpc, PROTOCOL-HTTP2.md): of
// JSON those that are sent, by descriptors of their methods, and JSON of those that come; and it reads
// how a call ended.
//
// Non-goals: HTTP/2 itself (load/h2), more than one message to the target, compression.
//
// Goroutines: none.
package grpc
