package publisher

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/publisher/descriptor"
)

func exampleShare() Share {
	key := descriptor.NewSecretKey([32]byte{1})
	a := key.Address()
	return Share{
		Address: a, Proof: [64]byte(key.Sign(ProofText("n1"))), Weight: 7, Healthy: true, Relays: []descriptor.Fingerprint{{1}, {2}}, Serves: []descriptor.Address{{8}}, Keys: []descriptor.Address{a, {9}},
		Text: bytes.Repeat([]byte("introduction\n"), 1200),
	}
}

func TestShare(t *testing.T) {
	want := exampleShare()
	pieces, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pieces {
		if len(p) > MaxPiece {
			t.Errorf("piece of %d bytes", len(p))
		}
	}
	slices.Reverse(pieces)
	if got, err := DecodeShare("n1", pieces); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v: %+v", err, got)
	}
	other, err := Share{Weight: 1, Text: want.Text}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	bad := slices.Clone(pieces[0])
	bad[20] ^= 1
	weak := want
	weak.Address = descriptor.Address{1} // of order 4: no key of anybody
	weakPieces, err := weak.Encode()
	if err != nil {
		t.Fatal(err)
	}
	heavy, err := Share{Weight: event.MaxOnionWeight + 1}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string][][]byte{
		"none": nil, "one missing": pieces[1:], "one twice": append(slices.Clone(pieces[1:]), pieces[1]),
		"a piece of another": append(slices.Clone(pieces[1:]), other[len(other)-1]), "a flipped bit": append(slices.Clone(pieces[1:]), bad),
		"an empty piece": {{}}, "no key": weakPieces, "too heavy": heavy,
	} {
		if _, err := DecodeShare("n1", p); !errors.Is(err, ErrShare) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := DecodeShare("n2", pieces); !errors.Is(err, ErrShare) {
		t.Errorf("shown by another host: %v", err)
	}
	want.Text = make([]byte, maxShare)
	if _, err := want.Encode(); !errors.Is(err, ErrShare) {
		t.Errorf("too large: %v", err)
	}
}

func FuzzShare(f *testing.F) {
	pieces, err := exampleShare().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(pieces[0], pieces[1])
	one, err := Share{}.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(one[0], []byte(nil))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		list := [][]byte{a}
		if b != nil {
			list = append(list, b)
		}
		s, err := decodeShare(list)
		if err != nil {
			return
		}
		again, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decodeShare(again); err != nil || !reflect.DeepEqual(got, s) {
			t.Errorf("%v: %+v, was %+v", err, got, s)
		}
	})
}
