// Package observability says what monitoring of a cluster looks like: the alerts, with
// for each a history in which it fires and one in which it must not, and the dashboard.
// They are tables here; rules.yml, tests.yml and dashboard.json, which operators
// take, are made from them and committed.
//
// Non-goals: metrics themselves, which the packages register that have something to
// count. docs/metrics.md lists them.
//
// Goroutines: none.
//
//	SKEIN_UPDATE=1 go test ./observability
package observability
