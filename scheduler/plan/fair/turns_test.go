package fair

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTurns: whoever has many that wait, another owner's one comes next.
func TestTurns(t *testing.T) {
	turns := Turns{Most: 6, Each: 4}
	if now, ok := turns.Ask("a", 1); !now || !ok || turns.Others() {
		t.Fatal("a free place is not given")
	}
	for id := uint64(2); id <= 5; id++ {
		if now, ok := turns.Ask("a", id); now || !ok || turns.Others() {
			t.Fatalf("%d: %t, %t", id, now, ok)
		}
	}
	if _, ok := turns.Ask("a", 6); ok {
		t.Error("one owner has more places in the line than it may")
	}
	for _, owner := range []string{"b", "c"} {
		if _, ok := turns.Ask(owner, uint64(owner[0])); !ok || !turns.Others() {
			t.Errorf("%s found no place", owner)
		}
	}
	if _, ok := turns.Ask("d", 7); ok {
		t.Error("the line is longer than it may be")
	}
	if turns.Leave("a", 1) || !turns.Leave("a", 3) || turns.Leave("a", 3) {
		t.Error("who has the place, or left, does not wait")
	}
	var order []uint64
	for {
		id, next := turns.Done()
		if !next {
			break
		}
		order = append(order, id)
	}
	if want := []uint64{'b', 2, 'c', 4, 5}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	if now, ok := turns.Ask("a", 9); !now || !ok || len(turns.waits) != 0 || turns.count != 0 {
		t.Errorf("after all: %+v", turns)
	}
}

// TestTurnsAreFair plays by a seed: each that waits is served or left once, between
// two turns of an owner each other that waited had one, and the bounds hold.
func TestTurnsAreFair(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	turns := Turns{Most: 20, Each: 8}
	waiting := map[uint64]string{}
	since := map[string]map[string]int{} // of who waits: how often others were served meanwhile
	busy := false
	for id := uint64(1); id < 20_000; id++ {
		owner := fmt.Sprint("o", rng.IntN(5))
		switch rng.IntN(5) {
		case 0, 1:
			now, ok := turns.Ask(owner, id)
			if now == busy {
				t.Fatalf("%d: place given %t, taken %t", id, now, busy)
			}
			busy = true
			if ok && !now {
				waiting[id] = owner
				if since[owner] == nil {
					since[owner] = map[string]int{}
				}
			}
			if len(waiting) > turns.Most || len(turns.waits[owner]) > turns.Each {
				t.Fatalf("%d wait", len(waiting))
			}
		case 2:
			for w, of := range waiting {
				if !turns.Leave(of, w) {
					t.Fatalf("%d of %s does not wait", w, of)
				}
				delete(waiting, w)
				if len(turns.waits[of]) == 0 {
					delete(since, of)
				}
				break
			}
		default:
			got, next := turns.Done()
			if next != (busy && len(waiting) > 0) {
				t.Fatalf("next %t, %d wait", next, len(waiting))
			}
			busy = next
			if !next {
				continue
			}
			served, ok := waiting[got]
			if !ok {
				t.Fatalf("%d was served and did not wait", got)
			}
			delete(waiting, got)
			for of, n := range since {
				if n[served]++; of != served && n[served] > 1 {
					t.Fatalf("%s had %d turns while %s waited", served, n[served], of)
				}
			}
			if delete(since, served); len(turns.waits[served]) > 0 {
				since[served] = map[string]int{}
			}
		}
	}
}
