// Package push sends on what a load test counts while it runs, for other systems to draw:
// CSV, Prometheus remote write, OTLP, InfluxDB and StatsD. Whoever follows a run does it,
// so that no host of the cluster asks anybody for anything, and no job has a secret.
//
// A window is handed to every output and sent at least once. An output that fails warns
// and never stops the follower: what it cannot take waits in a bounded queue.
//
// Non-goals: the report (load/report), what a window is made of (load/stat).
//
// Goroutines: one an output, which ends with Close.
package push
