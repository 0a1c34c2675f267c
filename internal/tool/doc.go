// Package tool finds programs that tests and demos start: in the search path, or among the
// pinned ones of bin/tools, which make builds.
//
// Non-goals: building them. Goroutines: none.
package tool
