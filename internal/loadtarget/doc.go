// Package main is the command loadtarget, which serves package faketarget: a target
// for load tests that does what is known, and calls of gRPC to grpc.health.v1.Health.
//
// Goroutines: those of its http.Server; they end with the program.
//
//	go run ./internal/loadtarget -listen 127.0.0.1:8080
package main
