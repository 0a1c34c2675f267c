package fair

import (
	"fmt"
	"testing"
	"time"
)

// jobs is a giver with room for so many chunks; all jobs always have some.
type jobs struct {
	room  int
	cost  map[string]time.Duration
	given map[string]int
	shut  map[string]bool // no worker takes these
	over  map[string]bool // these have nothing to give out
}

func (g *jobs) Room() bool          { return g.room > 0 }
func (g *jobs) Ready(j string) bool { return !g.over[j] }

func (g *jobs) Cost(j string) (time.Duration, bool) { return g.cost[j], !g.shut[j] }

func (g *jobs) Give(j string, _ time.Duration) bool {
	if g.over[j] {
		return false
	}
	g.room--
	g.given[j]++
	return true
}

// Owners share the time of the workers, whatever a chunk of them takes.
func TestSharesAreOfTime(t *testing.T) {
	r := NewRound[string](Limits{}, 0)
	g := &jobs{cost: map[string]time.Duration{"long": 4 * time.Second, "short": time.Second, "shut": time.Second}, given: map[string]int{}, shut: map[string]bool{"shut": true}}
	places := make([]Place[string], 3)
	for i, j := range []string{"long", "short", "shut"} {
		r.Open(&places[i], j, "owner of "+j, 0)
		r.Wait(&places[i], 0)
	}
	for range 100 {
		g.room = 10
		r.Fill(g, 0)
		if n, err := r.Check(); err != nil || n != 3 {
			t.Fatalf("%d wait: %v", n, err)
		}
	}
	if l, s := g.given["long"], g.given["short"]; g.given["shut"] != 0 || 4*l < s-8 || 4*l > s+8 {
		t.Errorf("given %v, want four short ones for each long one", g.given)
	}
}

// Owners whose jobs have nothing to give out any more do not end the round of the others.
func TestWhoLeavesHoldsNobodyUp(t *testing.T) {
	r := NewRound[string](Limits{}, 0)
	g := &jobs{cost: map[string]time.Duration{}, given: map[string]int{}, over: map[string]bool{"a": true, "b": true}}
	places := make([]Place[string], 3)
	for i, j := range []string{"a", "b", "c"} {
		r.Open(&places[i], j, "owner of "+j, 0)
		r.Wait(&places[i], 0)
	}
	g.room = 3
	if r.Fill(g, 0); g.given["c"] != 3 || len(r.ring) != 1 {
		t.Errorf("given %v", g.given)
	}
}

// Of one owner's jobs that with the smaller lag goes first, until the other has
// waited that much longer.
func TestLagIsBounded(t *testing.T) {
	r := NewRound[string](Limits{}, 0)
	g := &jobs{cost: map[string]time.Duration{"first": time.Second, "later": time.Second}, given: map[string]int{}}
	var first, later Place[string]
	r.Open(&later, "later", "o", 10*time.Second)
	r.Open(&first, "first", "o", 0)
	r.Wait(&later, 0)
	r.Wait(&first, 0)
	for now := time.Duration(0); now < 10*time.Second; now += time.Second {
		g.room = 1
		r.Fill(g, now)
	}
	if g.given["first"] != 10 || g.given["later"] != 0 {
		t.Errorf("given %v before the lag is over", g.given)
	}
	g.room = 2
	r.Fill(g, 11*time.Second)
	if g.given["later"] != 1 {
		t.Errorf("given %v after it", g.given)
	}
	r.Close(&first)
	r.Close(&later)
	if n, err := r.Check(); n != 0 || err != nil || first.Waits() || later.Waits() || len(r.ring) != 0 {
		t.Errorf("%d of none wait: %v", n, err)
	}
}

// Owners with open jobs are remembered, the others only as long as there is room.
func TestOwnersAreForgotten(t *testing.T) {
	r := NewRound[string](Limits{}, 0)
	var p Place[string]
	r.Open(&p, "j", "busy", 0)
	for i := range maxAccounts + 10 {
		_ = r.Admit(fmt.Sprint(i), 1, 1, 0) // nothing is open: all are admitted
	}
	if n := len(r.accounts); n > maxAccounts || r.accounts["busy"] == nil || r.accounts["0"] != nil {
		t.Errorf("%d owners are known", n)
	}
	r.Close(&p)
	for i := range 10 {
		_ = r.Admit(fmt.Sprint("later", i), 1, 1, 0)
	}
	if r.accounts["busy"] != nil {
		t.Error("an owner without jobs is never forgotten")
	}
}
