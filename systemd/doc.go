// Package systemd tells the service manager how the daemon is: ready,
// stopping, one line of status, alive. The unit files live here too. Without a
// service manager every call does nothing.
//
// Non-goals: socket activation, reading the journal, talking on the bus.
//
// Goroutines: none. Whoever proves that the daemon lives calls Watchdog; there
// is deliberately no timer here, because a timer proves nothing.
package systemd
