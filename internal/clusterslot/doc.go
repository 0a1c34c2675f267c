// Package clusterslot bounds how many clusters of daemons and how many guests
// the tests of a machine keep alive at once, whatever the number of test
// binaries and of parallel tests in each. A slot is a locked file, which the
// kernel unlocks when its process dies.
//
// A test takes its slot before it starts anything and before it sets a
// deadline, and keeps it until its end. Tests that take no part of the
// processors while they wait for a cluster can then run side by side, and each
// cluster has enough of the machine to keep its times.
//
// The environment variable SKEIN_TEST_CLUSTERS sets the number; by default it
// is two for each processor.
//
// Non-goals: fairness, and tests that need no cluster.
//
// Goroutines: none.
//
//	func TestThreeHosts(t *testing.T) {
//		t.Parallel()
//		clusterslot.Take(t)
package clusterslot
