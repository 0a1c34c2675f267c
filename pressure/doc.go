// Package pressure measures how loaded this host is and keeps what package overload
// makes of that.
//
// Twice a second: how long the kernel says that processes wait for processor, memory
// and disk (of the own control group, else of the machine, else from throttling and
// load), what is left of memory and disk, how long goroutines wait to run and syncs of
// the event log take, and how long the loops of this daemon let a ping wait. What a
// sensor says is checked: garbage is counted and the next source asked.
//
// Non-goals: it decides nothing (package overload does) and refuses nothing (package
// gate, below it, does).
//
// Goroutines: Run is one, and has one more for each Ping, which end with it; a ping
// ends by itself within two seconds. What a monitor says may be read from any.
package pressure
