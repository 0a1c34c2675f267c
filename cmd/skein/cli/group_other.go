//go:build !unix

package main

// socketGroup is not known here.
func socketGroup(string) string { return "" }
