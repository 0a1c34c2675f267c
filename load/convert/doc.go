// Package convert makes scenarios of what other tools write: the command lines of curl,
// vegeta's targets, and HAR files of browsers. What may be a secret does not get into the
// scenario: it names one instead.
//
// Non-goals: sending anything; scripts of other tools.
//
// Goroutines: none.
package convert
