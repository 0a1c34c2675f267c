// Package groupsync fetches the groups behind jobs.groups_url. A group that would
// lose more than half of its members at once is left as it is until an operator sets
// it: an empty answer of a directory must not end everybody's permissions.
//
// Goroutines: Run, which ends with its context.
package groupsync
