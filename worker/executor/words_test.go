package executor

import (
	"strings"
	"testing"

	"github.com/skein-project/skein/internal/wasmtest"
	"github.com/skein-project/skein/worker/words"
)

// TestWordsOfGuests: what a guest writes to standard error is heard, of one that is
// killed for taking too long as well, and of one that floods it both ends.
func TestWordsOfGuests(t *testing.T) {
	h := newWASMHost(t, nil)
	run := func(module []byte, seconds float64) words.Said {
		task := h.put(t, module)
		task.Words, task.Spec.TimeoutSeconds = &words.Words{}, seconds
		_, _ = h.Execute(t.Context(), 0, task) // how it ends others test
		return task.Words.Said()
	}
	if s := run(wasmtest.Assemble("no luck\n", wasmtest.Write(2), wasmtest.Exit(3)), 60); string(s.Text()) != "no luck\n" {
		t.Errorf("failed: %q", s.Text())
	}
	if s := run(wasmtest.Assemble("before\n", wasmtest.Write(2), wasmtest.Forever()), 2); string(s.Text()) != "before\n" {
		t.Errorf("killed: %q", s.Text())
	}
	line := strings.Repeat("x", 999) + "\n"
	s := run(wasmtest.Assemble(line, wasmtest.Forever(wasmtest.Write(2))), 1)
	if len(s.Head) != words.First || len(s.Tail) != words.Last || s.Left == 0 || strings.Trim(string(s.Text()), "x\n 0123456789[]abefhlorstuy") != "" {
		t.Errorf("flood: %d and %d bytes, %d left out", len(s.Head), len(s.Tail), s.Left)
	}
	quiet := h.put(t, wasmtest.Assemble(wasmtest.GoodResult, wasmtest.Write(1)))
	if _, err := h.Execute(t.Context(), 0, quiet); err != nil {
		t.Errorf("the next chunk, that nobody listens to: %v", err)
	}
}
