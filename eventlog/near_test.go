package eventlog

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
)

// TestFollowersInAZone: events cross to a zone without voters once. One host there follows
// a voter, the others follow it and are told at once; where it is cut off from the voters,
// or gone, they turn to these.
func TestFollowersInAZone(t *testing.T) {
	nw := newNetwork(t)
	logs := map[cluster.NodeID]*Log{}
	all := []cluster.NodeID{"a", "b", "c", "d", "e"}
	zone := all[2:]
	var mu sync.Mutex
	crossed := map[cluster.NodeID]int{} // streams to voters
	cut := false                        // c reaches no voter
	for _, id := range all {
		o := testOptions(t.TempDir(), id)
		o.PullEvery = 20 * time.Millisecond
		o.Float = func() float64 { return 0.5 }
		o.Peers = func() []cluster.NodeID { return all }
		dial := nw.dialer(id)
		o.Dial = dial
		if slices.Contains(zone, id) {
			o.Near = func() []cluster.NodeID {
				return slices.DeleteFunc(slices.Clone(zone), func(n cluster.NodeID) bool { return n == id })
			}
			o.Said = func(n cluster.NodeID) ([16]byte, bool) {
				mu.Lock()
				defer mu.Unlock()
				l, ok := logs[n]
				if !ok || n != "a" {
					return [16]byte{}, false
				}
				return l.Digest(), true
			}
			o.Dial = func(ctx context.Context, to cluster.NodeID) (net.Conn, error) {
				if !slices.Contains(zone, to) {
					mu.Lock()
					crossed[id]++
					away := cut && id == "c"
					mu.Unlock()
					if away {
						return nil, errDown
					}
				}
				return dial(ctx, to)
			}
		}
		l, _ := start(t, o)
		nw.add(id, l)
		mu.Lock()
		logs[id] = l
		mu.Unlock()
	}
	for _, id := range all {
		logs[id].SetVoters(voters("a", "b"))
	}
	reach := func(list ...cluster.NodeID) {
		t.Helper()
		e := mustAppend(t, logs["a"], note(1))
		for _, id := range list {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			if err := logs[id].Wait(ctx, e[0].Source, e[0].Seq); err != nil {
				t.Fatalf("%s: %v", id, err)
			}
			cancel()
		}
	}
	for range 50 {
		reach("c", "d", "e")
	}
	mu.Lock()
	// Each host has one to each voter, to tell of its own events.
	if crossed["c"] <= 2 || crossed["d"] > 2 || crossed["e"] > 2 {
		t.Errorf("streams to voters elsewhere: %v, want more than two of c alone", crossed)
	}
	cut = true
	mu.Unlock()
	nw.mu.Lock()
	for conn, ends := range nw.conns {
		if ends[0] == "c" && !slices.Contains(zone, ends[1]) {
			conn.Close()
		}
	}
	nw.mu.Unlock()
	reach("d", "e") // which still reach c, and hear nothing new of it
	nw.setDown("c", true)
	reach("d", "e")
}
