// Package main is the command play. It leaves a private Tor network running until it is interrupted,
// with one onion service and one client to try it.
package main
