package store

import (
	"bytes"
	"testing"

	"github.com/skein-project/skein/cluster/event"
)

func FuzzMark(f *testing.F) {
	h := event.Head{Source: event.SourceID{Node: "n1", Inc: 1}, Seq: 3, Sig: make([]byte, 64)}
	b, err := encodeMark(7, []event.Head{h})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		count, heads, err := decodeMark(b)
		if err != nil {
			return
		}
		if again, err := encodeMark(count, heads); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("not canonical: %v", err)
		}
	})
}
