package state

import (
	"bytes"
	"testing"
)

// encoded returns the canonical bytes of s, which decode to an equal state.
func encoded(t testing.TB, s *State) []byte {
	t.Helper()
	b, err := s.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	again, err := d.AppendBinary(nil)
	if err != nil || !bytes.Equal(again, b) {
		t.Fatalf("decoded and encoded again: %v, other bytes", err)
	}
	if d.Hash() != s.Hash() {
		t.Fatal("decoded: another hash")
	}
	if err := counts(d); err != nil {
		t.Fatalf("decoded: %v", err)
	}
	return b
}
