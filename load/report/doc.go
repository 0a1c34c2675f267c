// Package report says what a load test came to: as a document that programs read
// and that two runs are compared by, as tables, as test cases for a CI (JUnit), and
// as one HTML file with charts drawn here, without a script and without anything
// that it fetches.
//
// Non-goals: judging (load/rule), reading and writing files.
//
// Goroutines: none.
package report
