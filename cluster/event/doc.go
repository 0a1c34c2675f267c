// Package event is the vocabulary of the log: events and their bodies, the
// chains that they form, positions in them, and the table that declares every
// kind of event. It decides nothing and performs no I/O.
//
// An Event is one record. A source is the chain of events that one incarnation
// of a host wrote; its Head is the signed last position. A Cut is one position
// per source, and fences a term; a Cursor is how far a reader got.
//
// A new kind needs its constant and body type, a row in KindTable (docs/events.md
// is generated from that), and if it changes the fold, a case in eventlog/state.
//
// Everything here is a value. Slices and maps inside a value are never
// modified after the value has been handed on.
package event
