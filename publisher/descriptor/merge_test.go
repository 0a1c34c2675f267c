package descriptor

import (
	"fmt"
	"math/big"
	"slices"
	"testing"

	"github.com/skein-project/skein/cluster"
)

// hostsOf makes hosts with one point at each relay of their list.
func hostsOf(relays ...[]int) (out []Candidate) {
	for i, list := range relays {
		h := Candidate{Node: cluster.NodeID(fmt.Sprintf("host-%02d", i)), Weight: 1}
		for _, r := range list {
			h.Points = append(h.Points, testPoint(i, r))
		}
		out = append(out, h)
	}
	return out
}

// checkPick verifies what holds for every choice.
func checkPick(t testing.TB, hosts []Candidate, p Pick) {
	t.Helper()
	if len(p.Points) > MaxPoints || len(p.Points) != len(p.Nodes) {
		t.Fatalf("%d points of %d hosts", len(p.Points), len(p.Nodes))
	}
	seen := map[Fingerprint]bool{}
	for i, pt := range p.Points {
		if seen[pt.Relay] {
			t.Fatalf("two points at %s", pt.Relay)
		}
		seen[pt.Relay] = true
		k := slices.IndexFunc(hosts, func(h Candidate) bool { return h.Node == p.Nodes[i] })
		if k < 0 || hosts[k].Weight == 0 || !slices.Contains(hosts[k].Points, pt) {
			t.Fatalf("%s is not of %s", pt, p.Nodes[i])
		}
	}
}

func TestMerge(t *testing.T) {
	rangeOf := func(from, to int) (out []int) {
		for i := from; i <= to; i++ {
			out = append(out, i)
		}
		return out
	}
	weighted := func(hosts []Candidate, weights ...uint32) []Candidate {
		for i, w := range weights {
			hosts[i].Weight = w
		}
		return hosts
	}
	for _, c := range []struct {
		name  string
		hosts []Candidate
		want  []int // points per host
	}{
		{"nobody", nil, nil},
		{"no points", hostsOf(nil, nil), []int{0, 0}},
		{"three by three", hostsOf([]int{1, 2, 3}, []int{4, 5, 6}, []int{7, 8, 9}), []int{3, 3, 3}},
		{"all the same relays", hostsOf([]int{1, 2, 3}, []int{1, 2, 3}, []int{1, 2, 3}), []int{1, 1, 1}},
		{"the only relay of one", hostsOf([]int{1, 2, 3}, []int{1}), []int{2, 1}},
		{"a chain", hostsOf([]int{1}, []int{1, 2}, []int{2, 3}, []int{3, 4}), []int{1, 1, 1, 1}},
		{"even, not greedy", hostsOf([]int{1, 2, 3, 4}, []int{1, 2}), []int{2, 2}},
		{"one relay twice", hostsOf([]int{1, 1, 1}), []int{1}},
		{"too many", hostsOf(rangeOf(1, 30), rangeOf(31, 60)), []int{10, 10}},
		{"drained", weighted(hostsOf(rangeOf(1, 3), rangeOf(4, 6)), 0, 1), []int{0, 3}},
		{"weights", weighted(hostsOf(rangeOf(1, 30), rangeOf(31, 60), rangeOf(61, 90)), 1, 2, 7), []int{2, 4, 14}},
		{"a light host is still there", weighted(hostsOf(rangeOf(1, 30), rangeOf(31, 60)), 1, 1000), []int{1, 19}},
		{"a heavy host has few", weighted(hostsOf(rangeOf(1, 3), rangeOf(31, 60)), 1000, 1), []int{3, 17}},
	} {
		for seed := range byte(10) {
			p := Merge(c.hosts, 1, [32]byte{seed})[0]
			checkPick(t, c.hosts, p)
			var got []int
			for _, h := range c.hosts {
				got = append(got, p.Count(h.Node))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
				break
			}
		}
	}
}

// TestMergeAgainstTwin tries every assignment of relays to hosts: as many hosts
// as possible, then as many points, then the most even shares.
func TestMergeAgainstTwin(t *testing.T) {
	random := newStream([32]byte{1}, "twin")
	for n := range 400 {
		hosts := make([]Candidate, 1+random.below(4))
		relays, limit := 1+random.below(5), 1+random.below(6)
		for i := range hosts {
			hosts[i] = Candidate{Node: cluster.NodeID(fmt.Sprint("h", i)), Weight: uint32(1 + random.below(3))}
			for r := range relays {
				if random.below(5) < 2 {
					hosts[i].Points = append(hosts[i].Points, testPoint(i, r))
				}
			}
		}
		want := twin(hosts, relays, limit)
		order := newStream([32]byte{byte(n)}, "order")
		m := newMerge(hosts, order)
		m.reset(order)
		m.fill(limit)
		p := m.pick()
		checkPick(t, hosts, p)
		counts := make([]int, len(hosts))
		for i, h := range hosts {
			counts[i] = p.Count(h.Node)
		}
		got := newScore(hosts, counts)
		if got.hosts != want.hosts || got.points != want.points || (got.hosts == len(hosts) && got.uneven.Cmp(want.uneven) != 0) {
			t.Fatalf("case %d: %v of %+v, the best has %+v", n, counts, hosts, want)
		}
	}
}

type score struct {
	hosts, points int
	uneven        *big.Rat // sum of count^2 / weight
}

func newScore(hosts []Candidate, counts []int) score {
	s := score{uneven: new(big.Rat)}
	for i, c := range counts {
		if c > 0 {
			s.hosts++
		}
		s.points += c
		s.uneven.Add(s.uneven, big.NewRat(int64(c*c), int64(hosts[i].Weight)))
	}
	return s
}

func twin(hosts []Candidate, relays, limit int) (best score) {
	best = newScore(hosts, make([]int, len(hosts)))
	counts := make([]int, len(hosts))
	var assign func(r, taken int)
	assign = func(r, taken int) {
		if r == relays {
			s := newScore(hosts, counts)
			better := s.hosts > best.hosts || s.hosts == best.hosts && (s.points > best.points ||
				s.points == best.points && s.uneven.Cmp(best.uneven) < 0)
			if better {
				best = s
			}
			return
		}
		assign(r+1, taken)
		for i, h := range hosts {
			if taken < limit && slices.Contains(h.Points, testPoint(i, r)) {
				counts[i]++
				assign(r+1, taken+1)
				counts[i]--
			}
		}
	}
	assign(0, 0)
	return best
}

// TestDistinctDescriptors: beyond 20 points directories get different ones, and
// each host is in half of them or more.
func TestDistinctDescriptors(t *testing.T) {
	for _, c := range []struct{ hosts, each, dirs, want int }{
		{3, 3, 8, 1}, {4, 5, 8, 1}, {3, 10, 8, 8}, {15, 3, 8, 8}, {21, 1, 8, 8}, {30, 3, 4, 4}, {40, 2, 8, 8}, {40, 3, 6, 6}, {500, 3, 8, 8},
	} {
		var lists [][]int
		for h := range c.hosts {
			var list []int
			for k := range c.each {
				list = append(list, h*c.each+k)
			}
			lists = append(lists, list)
		}
		hosts := hostsOf(lists...)
		for i := range hosts {
			hosts[i].Node = cluster.NodeID(fmt.Sprintf("host-%03d", i))
		}
		n := Wanted(hosts, c.dirs)
		if n != c.want {
			t.Errorf("%d hosts with %d points: %d descriptors, want %d", c.hosts, c.each, n, c.want)
		}
		total := map[cluster.NodeID]int{}
		in := map[cluster.NodeID]int{}
		points := map[Point]bool{}
		for _, p := range Merge(hosts, n, [32]byte{3}) {
			checkPick(t, hosts, p)
			for _, h := range hosts {
				k := p.Count(h.Node)
				total[h.Node] += k
				if k > 0 {
					in[h.Node]++
				}
			}
			for _, pt := range p.Points {
				points[pt] = true
			}
		}
		least, most := 1<<30, 0
		for _, h := range hosts {
			if c.hosts <= 40 && in[h.Node]*2 < n {
				t.Errorf("%d hosts: %s is in %d of %d", c.hosts, h.Node, in[h.Node], n)
			}
			least, most = min(least, total[h.Node]), max(most, total[h.Node])
		}
		if most-least > 1 {
			t.Errorf("%d hosts with %d points: between %d and %d points in %d descriptors", c.hosts, c.each, least, most, n)
		}
		if n > 1 && len(points) <= MaxPoints {
			t.Errorf("%d hosts: %d descriptors with the same %d points", c.hosts, n, len(points))
		}
	}
}

// TestMergeDoesNotDependOnOrder: hosts that arrive in another order give the
// same descriptor, and another seed another one.
func TestMergeDoesNotDependOnOrder(t *testing.T) {
	hosts := hostsOf([]int{1, 2, 3, 4}, []int{2, 3, 4}, []int{1, 4, 5})
	a := Merge(hosts, 3, [32]byte{1})
	slices.Reverse(hosts)
	if b := Merge(hosts, 3, [32]byte{1}); fmt.Sprint(a) != fmt.Sprint(b) {
		t.Error("the order of hosts matters")
	}
	if b := Merge(hosts, 3, [32]byte{2}); fmt.Sprint(a) == fmt.Sprint(b) {
		t.Error("the seed does not matter")
	}
}

func BenchmarkMerge(b *testing.B) {
	var lists [][]int
	for h := range 500 {
		lists = append(lists, []int{h, h + 1, h + 2, h + 3, h * 7 % 500, h * 11 % 500})
	}
	hosts := hostsOf(lists...)
	for b.Loop() {
		Merge(hosts, 8, [32]byte{1})
	}
}
