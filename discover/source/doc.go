// Package source says where endpoints of hosts are looked for, how often each such place is
// asked, and what of an answer is used.
//
// Non-goals: asking, see package discover; and who is a member: what is found are endpoints,
// at which somebody with the right key may be.
//
// Goroutines: none.
package source
