// Package discover asks DNS and files where hosts may be. What it finds are endpoints to try,
// never members: whoever answers there has to have the key.
//
// Non-goals: which endpoint belongs to whom; when a peer counts as out of reach.
//
// Goroutines: Run, which its caller owns; while it asks, up to 10 more, which end within
// 2 s.
package discover
