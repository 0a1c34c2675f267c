// Package logger makes the daemon's logger. Non-goals: deciding what is logged.
//
// Goroutines: none.
package logger
