// Package step is the language of a plan: the events that Plan.Step takes, and
// the actions with which it answers. Each is a plain value; the caller makes
// events of what it hears, and logs and sends what the actions say.
//
// Non-goals: any decision, which is the plan's; the wire, which is
// scheduler/stream's; the log, whose records are those of cluster/event.
//
// Goroutines: none.
package step
