// Package segment reads what one file of the event log holds, and knows how the
// files are named: a directory for each source, "node.incarnation", with
// segments named by their first sequence number.
//
// Scan reads a segment and checks everything that can be checked without keys.
// It distinguishes the remains of an interrupted write, which was never reported as
// durable, from damage, which is a *CorruptError.
//
// Scan reads long segments with one goroutine per processor and one that cuts
// them into pieces; all end before Run returns.
//
// Non-goals: writing segments, and what a chain of them means; see package store.
package segment
