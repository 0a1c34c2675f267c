package reserve

import (
	"math/rand/v2"
	"testing"
)

// TestAdmits has what reservations leave to others.
func TestAdmits(t *testing.T) {
	var b Book
	if !b.Admits("eu", "bob") || b.On() {
		t.Error("without reservations nobody waits")
	}
	count := func(slots map[string]int) { b.Count(func() map[string]int { return slots }) }
	b.Set([]Reservation{{"ann", "eu", 6}, {"carl", "eu", 6}, {"ann", "us", 1}})
	count(map[string]int{"eu": 16, "us": 4})
	free := func(zone, owner string, want int) {
		t.Helper()
		n := 0
		for b.Admits(zone, owner) && n < 100 {
			b.Add(zone, owner, 1)
			n++
		}
		if b.Add(zone, owner, -n); n != want {
			t.Errorf("%s has %d in %s, want %d", owner, n, zone, want)
		}
	}
	free("eu", "bob", 8)   // half of the zone is reserved at most: carl has 2 of his 6
	free("eu", "ann", 14)  // her own and what is nobody's
	free("eu", "carl", 10) // as well
	free("us", "bob", 3)
	free("ap", "bob", 100)
	b.Add("eu", "ann", 4)
	free("eu", "bob", 8) // what she uses is not kept free once more
	b.Add("eu", "bob", 12)
	free("eu", "bob", 0) // nobody is sent away, and nobody else begins
	b.Add("eu", "bob", -12)
	count(map[string]int{"eu": 2})
	b.Add("eu", "ann", -4)
	free("eu", "bob", 1)
	free("us", "bob", 100) // a zone without hosts reserves nothing
	b.Set(nil)
	free("eu", "bob", 100)
}

// TestAgainstATwin: whoever begins and ends what, there is room for what is reserved and not used,
// as far as it was there when the reservation came, and at most half of a zone is kept.
func TestAgainstATwin(t *testing.T) {
	owners, zones := []string{"a", "b", "c", "d"}, []string{"x", "y"}
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var b Book
		slots, list := map[string]int{"x": rng.IntN(20), "y": rng.IntN(20)}, []Reservation(nil)
		for range rng.IntN(5) {
			list = append(list, Reservation{owners[rng.IntN(3)], zones[rng.IntN(2)], rng.IntN(12)})
		}
		b.Set(list)
		b.Count(func() map[string]int { return slots })
		type key struct{ zone, owner string }
		runs := make(map[key]int)
		for range 300 {
			k := key{zones[rng.IntN(2)], owners[rng.IntN(4)]}
			if rng.IntN(2) == 0 && runs[k] > 0 {
				runs[k]--
				b.Add(k.zone, k.owner, -1)
				continue
			}
			room, kept, all := slots[k.zone]/2, 0, 0
			of := make(map[string]int)
			for _, r := range list {
				if r.Zone == k.zone {
					n := min(r.Slots, room)
					room -= n
					of[r.Owner] += n
				}
			}
			for _, o := range owners {
				all += runs[key{k.zone, o}]
				if o != k.owner {
					kept += max(0, of[o]-runs[key{k.zone, o}])
				}
			}
			want := kept == 0 || all+kept < slots[k.zone]
			if got := b.Admits(k.zone, k.owner); got != want || kept > slots[k.zone]/2 {
				t.Fatalf("seed %d: %s in %s: %t, %d of %d run, %d are kept", seed, k.owner, k.zone, got, all, slots[k.zone], kept)
			}
			if want {
				runs[k]++
				b.Add(k.zone, k.owner, 1)
			}
		}
	}
}
