package coord

import "testing"

func TestOptionsAreChecked(t *testing.T) {
	if _, err := New(Options{Self: "host-a"}); err == nil {
		t.Error("empty options accepted")
	}
}
