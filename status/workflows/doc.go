// Package workflows has the routes of the API about workflows.
//
// Non-goals: who may ask, and how answers are written, which packages status and
// status/door see to.
//
// Goroutines: none.
package workflows
