// Package membership is this host as a member: its own records, its WireGuard
// key and its departure, what it does for others as a sponsor, and what it
// knows of who is and was a member.
//
// Roster answers lookups. Own keeps this host's announcement and certificate,
// changes its key and takes it out of the cluster. Sponsor admits, renews and
// removes other hosts, once this host may. Departures is the holder's part when
// a voter goes. Conflicts brings records that contradict each other to the
// holder, which logs each dispute once.
//
// Non-goals: it decides nothing about records, which is coord/member's, nor
// about the lease; and it does not set the mesh device, see membership/deviceplan.
//
// Goroutines: Own.Run, Sponsor.Run and Conflicts.Run block until their context
// ends; the caller owns them. Everything that changes this host's own records
// happens in Own's, so that no two announcements of one epoch exist.
package membership
