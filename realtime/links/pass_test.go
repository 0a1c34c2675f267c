package links

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
)

// TestPass: whatever hosts report, who is passed it on has what the one has who passes it on,
// in messages that are taken; of what is well nothing, but of hosts that are wanted whole.
func TestPass(t *testing.T) {
	var members []cluster.NodeID
	for i := range 24 {
		members = append(members, cluster.NodeID(fmt.Sprintf("n%02d", i)))
	}
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 3)) //nolint:gosec // a test
		var table, all, few Table
		var tellers [24]Teller
		toAll, toFew := Passer{}, Passer{Few: true, Whole: members[3:4]}
		for step := range 30 {
			now := time.Duration(step) * time.Second
			for i, from := range members {
				if r.IntN(3) == 0 {
					continue
				}
				if r.IntN(20) == 0 {
					tellers[i] = Teller{} // another stream
				}
				var peers []Peer
				for _, to := range members {
					if to != from && r.IntN(8) > 0 {
						peers = append(peers, peer(to, []cluster.Health{cluster.Alive, cluster.Alive, cluster.Dead}[r.IntN(3)], Direct, 0))
					}
				}
				table.Take(from, tellers[i].Tell(peers, now), now)
			}
			of := members
			if step%7 == 6 {
				of = members[5:]
			}
			for _, x := range []struct {
				p  *Passer
				to *Table
			}{{&toAll, &all}, {&toFew, &few}} {
				for _, o := range x.p.Pass(&table, of) {
					if err := o.Check(); err != nil {
						t.Fatal(err)
					}
					for _, told := range o.Told {
						x.to.Take(told.From, told.Report, now)
					}
				}
			}
			for _, from := range of {
				want := table.hosts[from].halves
				if got := all.hosts[from].halves; len(want)+len(got) > 0 && !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d, step %d, %s: %v, want %v", seed, step, from, got, want)
				}
				n := 0
				for _, h := range want {
					if !h.Well() || from == members[3] {
						n++
					}
				}
				if got := few.hosts[from].halves; len(got) != n {
					t.Fatalf("seed %d, step %d, %s: %d halves are passed on that are not well, want %d", seed, step, from, len(got), n)
				}
			}
		}
		if out := toAll.Pass(&table, members[5:]); len(out) > 0 {
			t.Errorf("%d messages of nothing new", len(out))
		}
	}
}

// TestPassIsBounded: of very many halves no message is too long, and what no host passes on is
// refused.
func TestPassIsBounded(t *testing.T) {
	var table Table
	var members []cluster.NodeID
	many := Report{All: true}
	for i := range MaxHalves {
		many.Set = append(many.Set, Half{To: cluster.NodeID(fmt.Sprint("x", i)), State: cluster.Alive, Path: Direct})
	}
	other := Report{All: true}
	for i := range MaxHalves {
		other.Set = append(other.Set, Half{To: cluster.NodeID(fmt.Sprint("y", i)), State: cluster.Alive, Path: Direct})
	}
	for i := range 5 {
		members = append(members, cluster.NodeID(fmt.Sprint("n", i)))
		table.Take(members[i], many, 1)
	}
	var p Passer
	for step, want := range []int{5, 5, 1} {
		out := p.Pass(&table, members)
		if len(out) != want {
			t.Errorf("step %d: %d messages, want %d", step, len(out), want)
		}
		for _, o := range out {
			if err := o.Check(); err != nil {
				t.Error(err)
			}
		}
		for _, m := range members {
			r := Report{}
			if step == 0 {
				r = other // none of those before
			}
			table.Take(m, r, time.Duration(step+2))
		}
	}
	big := Told{From: "n1", Report: many}
	for name, o := range map[string]Others{
		"too many": {Told: []Told{big, big, big}},
		"no host":  {Told: []Told{{From: "../n1"}}},
		"bad half": {Told: []Told{{From: "n1", Report: Report{Set: []Half{{To: "n2", State: "fine"}}}}}},
	} {
		if o.Check() == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if err := (Others{Told: []Told{{From: "n1"}}}).Check(); err != nil {
		t.Error(err)
	}
	if CheckWhole(make([]cluster.NodeID, MaxWhole+1)) == nil || CheckWhole([]cluster.NodeID{"../n1"}) == nil || CheckWhole([]cluster.NodeID{"n1"}) != nil {
		t.Error("a list of hosts that are wanted whole is judged wrongly")
	}
}
