// Package main makes the pictures of the README: pages and `skein top` of a demo whose
// holder was just killed. It needs chromium and tmux.
//
//	go run ./internal/pictures -skein bin/skein -out docs/pictures
//
// Non-goals: pictures of anything else; goldens of the page and the terminal are those
// of web/browser and tui.
//
// Goroutines: two read what the demo says, one after the other, and end with it.
package main
