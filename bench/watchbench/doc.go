// Package watchbench compares what a daemon sends to many watchers with a WebSocket
// hub on gorilla/websocket that sends the same bytes.
//
// Goroutines: those of both servers and a reader for each connection; they end with
// the group.
package watchbench
