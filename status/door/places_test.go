package door

import (
	"testing"

	"github.com/skein-project/skein/api"
)

// TestPlaces: nobody takes more than a quarter, whatever the way, but an operator on the
// socket; what is left makes room.
func TestPlaces(t *testing.T) {
	refused := 0
	ps := NewPlaces("watches", 16, func() { refused++ })
	enter := func(p Peer, n int) (leave []func()) {
		t.Helper()
		for range n {
			l, prob := ps.Enter(p)
			if prob != nil {
				t.Fatalf("%s: %v", placeOf(p), prob)
			}
			leave = append(leave, l)
		}
		return leave
	}
	full := func(p Peer) {
		t.Helper()
		if _, prob := ps.Enter(p); prob == nil || prob.Code != api.CodeOverloaded || prob.RetryAfterSeconds == nil {
			t.Errorf("one too many of %s: %v", placeOf(p), prob)
		}
	}
	ann := Peer{TCP: true, Users: true, User: "user:ann", Addr: "192.0.2.1"}
	left := enter(ann, 4)
	full(ann)
	full(Peer{UID: 7, User: "user:ann"}) // on the socket, by her key
	left[0]()
	enter(ann, 1)
	full(ann)
	enter(Peer{UID: 7}, 4)
	full(Peer{UID: 7})
	near := Peer{TCP: true, Addr: "2001:db8::1"}
	enter(near, 4)
	near.Addr = "2001:db8::2"
	full(near)
	if refused != 5 {
		t.Errorf("%d are counted", refused)
	}
	root := Peer{Admin: true}
	out := enter(root, 4)
	full(root)
	full(Peer{UID: 8})
	out[0]()
	enter(Peer{UID: 8}, 1)
}
