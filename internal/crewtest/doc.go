// Package crewtest is what every store of outside workers must do: one suite, which the
// memory of one host and a store that gateways share pass alike.
//
// Non-goals: what only time shows, and what only one store can suffer.
package crewtest
