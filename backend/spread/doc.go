// Package spread puts artefacts on the disks of enough voters, so that the job which
// needs them survives the loss of the host that had them first.
//
// Non-goals: keeping them there, which worker/artefact does for as long as a job is open.
//
// Goroutines: those that ask the voters, which end with the call.
package spread
