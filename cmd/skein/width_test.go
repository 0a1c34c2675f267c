package main

import (
	"os"
	"testing"
)

// TestWidth: a terminal of unknown size is a terminal.
func TestWidth(t *testing.T) {
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer pty.Close()
	if w := width(pty); w != 80 {
		t.Errorf("a terminal without a size has %d columns, want 80", w)
	}
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if w := width(file); w != 0 {
		t.Errorf("%s has %d columns, want 0", os.DevNull, w)
	}
}
