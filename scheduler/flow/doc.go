// Package flow decides about workflows: Compile says whether a definition makes sense,
// and a Machine what is to be done next in one run of it.
//
// A Machine is made of what the log says of the run (eventlog/state/flows) and is told
// what happens afterwards: Step takes one event and says what follows from it. What it
// asks for is done, or taken back by an event; whoever makes another Machine of the
// same log goes on as this one would. Jobs of steps have keys that follow from run,
// step, instance and try, so that what is asked for twice is one job.
//
// Non-goals: which workers run the jobs (scheduler/plan), how what a Machine asks for
// is carried out (scheduler/runs).
//
// Goroutines: none.
package flow
