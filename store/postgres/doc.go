// Package postgres is the holder's side of a PostgreSQL database: with intake it submits
// the jobs that others write into the table skein.jobs, with sink it writes there how
// jobs ended. A portal that has a database of its own needs nothing else of skein.
//
// The log decides and counts; the table is told. Every write names the term of the
// holder and is refused by one statement once a later one has raised skein.fence, so a
// holder that lost its lease and does not know it changes nothing. Nothing is counted by
// notifications: they only wake; each term and every 10 s the table is compared with the
// log, and what is missing is written. A write whose outcome is not known is read back,
// never taken for failed.
//
//	new -> taken -> completed | failed | cancelled
//	new -> rejected
//
// A job is submitted by its owner and key, before it is marked as taken: whoever does
// that again gets the same job. A result is written when its end is stable, with the
// SHA-256 of its text; one that differs from what is there is a fault that is logged.
//
// Non-goals: results of single chunks; deciding who may write into the table, which its
// grants do; a queue for PostgreSQL that is down, because the log is one.
//
// Goroutines: Run blocks until its context ends and owns one that listens.
package postgres
