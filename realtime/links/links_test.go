package links

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
)

func peer(to cluster.NodeID, state cluster.Health, path string, bytes uint64) Peer {
	return Peer{Half: Half{To: to, State: state, Path: path, RTT: 0.0123456}, Rx: bytes, Tx: 2 * bytes, Counted: true}
}

// TestTell: whole first, then what is another, with rates of two digits; and in a
// large cluster only what is not well.
func TestTell(t *testing.T) {
	var all Teller
	few := Teller{Few: true}
	for _, step := range []struct {
		peers    []Peer
		all, few string
	}{
		{[]Peer{peer("n2", cluster.Alive, Direct, 1000), peer("n3", cluster.Dead, "", 0)}, "all n2 alive 0/0, n3 dead 0/0", "all n3 dead 0/0"},
		{[]Peer{peer("n2", cluster.Alive, Direct, 1000), peer("n3", cluster.Dead, "", 0)}, "", ""},
		{[]Peer{peer("n2", cluster.Alive, Direct, 3469), peer("n3", cluster.Dead, "", 0)}, "n2 alive 1200/2500", ""},
		{[]Peer{peer("n2", cluster.Alive, Direct, 5939)}, "gone n3", "gone n3"},
		{[]Peer{peer("n2", cluster.Alive, "onion", 8409)}, "n2 alive 1200/2500", "n2 alive 1200/2500"},
		{[]Peer{peer("n2", cluster.Alive, Direct, 8409)}, "n2 alive 0/0", "gone n2"},
		{[]Peer{peer("n2", cluster.Alive, Direct, 10)}, "", ""}, // another device counts
	} {
		now := all.at + 2*time.Second
		if got := text(all.Tell(step.peers, now)); got != step.all {
			t.Errorf("told %q, want %q", got, step.all)
		}
		if got := text(few.Tell(step.peers, now)); got != step.few {
			t.Errorf("of what is not well told %q, want %q", got, step.few)
		}
	}
	if h := peer("n2", cluster.Alive, Direct, 0).coarse(); h.RTT != 0.012 {
		t.Errorf("round trip %v", h.RTT)
	}
}

func text(r Report) string {
	s := ""
	if r.All {
		s = "all "
	}
	for i, h := range r.Set {
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprintf("%s %s %g/%g", h.To, h.State, h.Receive, h.Transmit)
	}
	for _, node := range r.Del {
		s += "gone " + string(node)
	}
	return s
}

// TestCheck: a host that lies is refused, and fills no memory.
func TestCheck(t *testing.T) {
	good := Half{To: "n2", State: cluster.Alive, Path: Direct, RTT: 0.1}
	for name, change := range map[string]func(r *Report){
		"no host":        func(r *Report) { r.Set[0].To = "../n2" },
		"no state":       func(r *Report) { r.Set[0].State = "fine" },
		"left":           func(r *Report) { r.Set[0].State = cluster.Left },
		"no path":        func(r *Report) { r.Set[0].Path = "by foot" },
		"time below 0":   func(r *Report) { r.Set[0].RTT = -1 },
		"handshake":      func(r *Report) { r.Set[0].Handshake = -1 },
		"rate":           func(r *Report) { r.Set[0].Transmit = -1 },
		"too many":       func(r *Report) { r.Set = slices.Repeat(r.Set, MaxHalves+1) },
		"too many gone":  func(r *Report) { r.Del = make([]cluster.NodeID, MaxHalves) },
		"":               func(*Report) {},
		" over tor":      func(r *Report) { r.Set[0].Path = Onion },
		" not connected": func(r *Report) { r.Set[0] = Half{To: "n3", State: cluster.Dead} },
	} {
		r := Report{Set: []Half{good}}
		change(&r)
		if err := r.Check(); (err == nil) != (name == "" || name[0] == ' ') {
			t.Errorf("%q: %v", name, err)
		}
	}
	var table Table
	for i := range 2 * MaxHalves {
		table.Take("n1", Report{Set: []Half{{To: cluster.NodeID(fmt.Sprint("x", i)), State: cluster.Alive}}}, 0)
	}
	if n := len(table.hosts["n1"].halves); n != MaxHalves {
		t.Errorf("%d half-edges are kept of one host", n)
	}
}

// TestTakeWhatWasTold: after any reports a table shows what is seen.
func TestTakeWhatWasTold(t *testing.T) {
	var table Table
	var teller Teller
	members := []cluster.NodeID{"n1", "n2", "n3", "n4"}
	for i := range 64 {
		var peers []Peer
		var want []Half
		for j, node := range members[1:] {
			if i>>j&1 == 1 {
				p := peer(node, []cluster.Health{cluster.Alive, cluster.Suspect}[i>>(3+j)&1], Direct, 0)
				peers, want = append(peers, p), append(want, p.coarse())
			}
		}
		table.Take("n1", teller.Tell(peers, time.Duration(i)), time.Duration(i))
		var got []Half
		for _, e := range table.Edges("n1", "n1", members[:], time.Duration(i)) {
			if e.From == "n1" {
				got = append(got, e.Half)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("step %d: %v, want %v", i, got, want)
		}
	}
}

// TestSilence: who has not reported for a while has halves that are unknown, with when
// it did; among many hosts one of them, unless it was asked for.
func TestSilence(t *testing.T) {
	var table Table
	members := []cluster.NodeID{"n1", "n2", "n3"}
	table.Take("n1", Report{All: true, Set: []Half{{To: "n2", State: cluster.Alive}, {To: "n9", State: cluster.Dead}}}, time.Second)
	table.Take("n2", Report{All: true, Set: []Half{{To: "n1", State: cluster.Alive}}}, time.Second)
	show := func(of cluster.NodeID, now time.Duration) (out []string) {
		for _, e := range table.Edges("n1", of, members, now) {
			out = append(out, fmt.Sprintf("%s>%s %s %v", e.From, e.To, e.State, e.Ever))
		}
		return out
	}
	if got, want := show("", 2*time.Second), []string{"n1>n2 alive true", "n2>n1 alive true", "n3>n1 unknown false", "n3>n2 unknown false"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	table.Take("n1", Report{}, Fresh)
	if got, want := show("n2", Fresh+time.Second), []string{"n1>n2 alive true", "n2>n1 unknown true", "n2>n3 unknown true", "n3>n2 unknown false"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for i := range Many {
		members = append(members, cluster.NodeID(fmt.Sprintf("x%d", i)))
	}
	if got := show("", Fresh+time.Second); len(got) != len(members) { // n1>n2, and one of each other
		t.Errorf("%d of %d hosts: %q", len(got), len(members), got)
	}
	if got := show("n2", Fresh+time.Second); len(got) < len(members)-1 {
		t.Errorf("%d halves of a host that was asked for", len(got))
	}
	table.Keep([]cluster.NodeID{"n2"})
	if got := show("", 2*time.Second); slices.Contains(got, "n1>n2 alive true") {
		t.Errorf("a host that is forgotten: %q", got)
	}
}
