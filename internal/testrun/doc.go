// Package main is the command testrun, which is `make test`: it runs the parts
// of the tests side by side, so that what waits for daemons, tor networks and
// guests does so while other parts compute.
//
// The parts are data in parts.go; every case is in one of them. The packages in which
// nothing can run beside anything else, as threads.go finds, run without the race
// detector, the others with it, but for what parts.go says. Each lane runs its parts
// one after the other with `go test -json`; package internal/clusterslot bounds how
// many clusters live at once, and the lanes that compute have a lower priority than
// those that keep times. The result of a package is printed when it is complete, all
// of it together: one line if it passed, the output of what failed otherwise.
// Where few tests of a part failed, and none of a data race or a panic, they are run
// once more when all else has ended: they fail if they fail again, and are named if not.
// At the end come the slowest cases, all results once more, and the counts. The
// exit code is 1 if anything failed, was not built, or ran no test.
//
// Goroutines: one per lane, each ends with its last part.
//
//	go run ./internal/testrun            # everything
//	go run ./internal/testrun -run mesh  # the parts whose names match
package main
