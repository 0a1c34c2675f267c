// Package query reads which events a request asks for, and tells whether an event is
// one of them.
//
// Non-goals: it reads no log and asks nobody what a name means.
package query
