// Package guardtest is what every guard.Guard must do: one suite, which the memory of one host
// and a store that gateways share pass alike.
//
// Non-goals: what only one of them can suffer.
package guardtest
