// Package facebench measures what people look at: the page in Chromium and the terminal
// of `skein top`. They have no peers, only bounds.
//
// Non-goals: driving a browser; that is what web/browser/measure does, a program of the
// module that knows Chromium.
//
// Goroutines: a reader for the terminal, which ends with it.
package facebench
