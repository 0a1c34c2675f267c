// Package groupsync takes the groups of jobs.groups_file and behind jobs.groups_url into
// the log. A group that would lose more than half of its members within a day is left as it
// is until an operator sets it: an empty answer of a directory, or half a file, must not
// end everybody's permissions.
//
// Goroutines: Run and one that reads the file, which end with its context.
package groupsync
