// Package store keeps in files what a host's part in the cluster must not forget
// over a restart: the vote record and the membership records.
//
// It has no goroutines.
package store
