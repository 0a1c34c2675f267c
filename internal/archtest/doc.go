// Package archtest holds the rules that the code's structure keeps, as data:
// who may import whom, that every package states its purpose in doc.go, and
// that no file outgrows a reader. Its test fails on any other arrow.
package archtest
