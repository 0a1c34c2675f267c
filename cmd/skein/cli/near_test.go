package cli

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"status", "members", "job", "onion", "iterations", "early_stop.metric", "ls"}
	for typed, want := range map[string]string{
		"statsu": "status", "stauts": "status", "iteration": "iterations", "jbo": "job", "onoin": "onion", "member": "members",
		"early_stop.metrics": "early_stop.metric", "stat": "status", "iter": "iterations", "onio": "onion", "st": "",
		"": "", "up": "", "l": "", "jxy": "", "version": "", strings.Repeat("a", 1000): "",
	} {
		if got := Nearest(typed, known); got != want {
			t.Errorf("nearest to %.20q: %q, want %q", typed, got, want)
		}
	}
}

// TestNearestOfSeveral: the beginning of two words is none of them.
func TestNearestOfSeveral(t *testing.T) {
	if got := Nearest("work", []string{"workers", "workflow"}); got != "" {
		t.Errorf("work is %q", got)
	}
}

func TestAskedForm(t *testing.T) {
	for line, want := range map[string]string{
		"": "", "status": "", "-o json status": "json", "status -o jsonl": "jsonl", "-ojson": "json", "-o=json": "json", "--output=json": "json", "--output csv": "csv",
		"-o": "", "--output": "", "status -- -o json": "", "-o tsv -o json": "json", "--out json": "",
	} {
		if got := AskedForm(strings.Fields(line)); got != want {
			t.Errorf("%q asks for %q, want %q", line, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text, indent, want string
		width              int
	}{
		{"one two three", "", "one two\nthree", 8},
		{"one two three", "  ", "one two\n  three", 9},
		{"one\ntwo", "", "one two", 80},
		{"one two\n\nthree", "", "one two\n\nthree", 80},
		{"one two\n  kept as it is\nthree", "", "one two\n  kept as it is\nthree", 8},
		{"see `skein log verify` now", "", "see\n`skein log verify`\nnow", 10},
		{"unwrapped text of any length", "  ", "unwrapped text of any length", 0},
		{"averylongword b", "", "averylongword\nb", 5},
		{"an odd ` is one", "", "an odd\n` is\none", 6},
	} {
		if got := Wrap(c.text, c.width, c.indent); got != c.want {
			t.Errorf("%q in %d: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}
