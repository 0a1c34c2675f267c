// Package logaudit verifies event logs without any of skein's code: it was
// written from docs/log-format.md and imports the standard library only. It
// exists to show that the page suffices, and as a second opinion in tests.
//
// Goroutines: none.
package logaudit
