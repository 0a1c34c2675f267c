// Package links puts together what the hosts of a cluster know of the ways between
// them. Each host knows its own halves only: how it sees another. A host tells them
// whole and then what changes in them (Teller); who shows them keeps the last word of
// each host (Table) and does not take silence for health: a host that has not
// reported lately has halves that are unknown.
//
// In large clusters only what is out of order is told, and all of the hosts that
// somebody asked for.
//
// Non-goals: it measures nothing, asks nobody and keeps no time.
package links
