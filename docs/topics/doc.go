// Package topics has all that is explained: what package docs finds in the pages, the
// keys of the configuration and the exit codes. `skein explain` prints them, and the page
// shows them beside its help.
//
// Non-goals: how a topic looks, on a terminal or in a page; Parse takes its Markdown apart
// for both.
//
// Goroutines: none. Nothing is kept: each question reads the pages anew.
package topics
