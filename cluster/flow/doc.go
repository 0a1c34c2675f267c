// Package flow is the vocabulary of workflows: graphs of steps, each of which is one
// job or several. It says what a definition is, how a run of one is named, and which
// states there are.
//
// Non-goals: whether a definition makes sense as a whole, and what is to be done next,
// which scheduler/flow decides.
//
// Goroutines: none.
package flow
