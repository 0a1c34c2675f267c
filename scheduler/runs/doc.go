// Package runs carries out workflows within one term of the lease: it makes a Machine
// (scheduler/flow) of each run that is open by the log, tells it what happens, and turns
// what it asks for into submissions of jobs and events, which go into the batch of the
// term's loop as all others do.
//
// Ordering. The jobs of steps are submitted before the log says that they started, in
// one append. Their ends are taken from the fold once they are in it, so that outputs
// are the same whoever reads them. A config document is on the disks of a majority of
// the voters before its job is submitted.
//
// Non-goals: what is to be done next (scheduler/flow), whose job is next and where it
// runs (scheduler/plan).
//
// Goroutines: the assembler, which stores config documents one after the other, the
// finder, which asks hosts for the files of steps, and the reader, which reads what
// providers left; they end with the context of Run. All else belongs to the loop of the
// term.
//
// Channels. Documents, searches and files to read: capacity 64 each, when full they are
// asked for with a later tick. What came of them: capacity 64, when full all wait for the
// loop.
package runs
