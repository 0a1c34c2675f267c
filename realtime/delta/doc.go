// Package delta turns what a host sees into a stream of differences: rows of
// topics come in, encoded frames go out, kept in a ring that any number of
// readers share.
//
// A row is one record of the API under a key. What only ages or grows in it, its
// gauges, makes no difference: rows that differ in nothing else are equal, and
// their gauges are told apart, in columns, by whoever wants to. Rows are always
// told whole, so that a difference that comes twice does no harm.
//
// A Position says how far a reader is, in the ring of one run of one daemon and,
// by a cursor, in the event log; the latter means the same on every host. Resume
// decides what a position is worth.
//
// Non-goals: it asks nobody for rows, knows no reader, and keeps no time.
package delta
