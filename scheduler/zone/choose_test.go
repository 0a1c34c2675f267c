package zone

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func zones(list ...Candidate) []Candidate { return list }

func idle(name string, rtt time.Duration) Candidate {
	return Candidate{Zone: name, Health: Healthy, RTT: rtt, Slots: 10, Free: 10}
}

func TestChoose(t *testing.T) {
	busy, ill, dead := idle("busy", 0), idle("ill", 0), idle("dead", 0)
	busy.Health, ill.Health, dead.Health = Busy, Degraded, Unhealthy
	full := idle("full", 20*time.Millisecond)
	full.Free, full.Queued = 0, 30
	near, far := idle("near", time.Millisecond), idle("far", 300*time.Millisecond)
	for name, c := range map[string]struct {
		list []Candidate
		want Want
		is   string // joined, or the error
	}{
		"the nearer":           {zones(far, near), Want{Count: 1}, "near"},
		"the emptier":          {zones(full, idle("a", 90*time.Millisecond)), Want{Count: 1}, "a"},
		"health first":         {zones(ill, busy, far), Want{Count: 3}, "far busy ill"},
		"preferred":            {zones(near, far), Want{Count: 1, Prefer: []string{"far"}}, "far"},
		"preferred, not well":  {zones(near, busy), Want{Count: 1, Prefer: []string{"busy"}}, "near"},
		"among":                {zones(near, far), Want{Count: 1, Among: []string{"far"}}, "far"},
		"too many":             {zones(near, far), Want{Count: 3}, "3 zones are wanted of 2"},
		"too many among":       {zones(near, far), Want{Count: 2, Among: []string{"far"}}, "2 zones are wanted of 1"},
		"none":                 {nil, Want{Count: 1}, "1 zones are wanted of 0"},
		"unhealthy":            {zones(near, dead), Want{Count: 2}, "2 zones are wanted, and of 1 unhealthy ones nothing is to be expected: dead"},
		"not the unhealthy":    {zones(dead, far), Want{Count: 1}, "far"},
		"unknown":              {zones(near), Want{Count: 1, Among: []string{"mars", "near"}}, "no host is in zone mars"},
		"unknown is preferred": {zones(near), Want{Count: 1, Prefer: []string{"mars"}}, "no host is in zone mars"},
		"zero":                 {zones(near), Want{}, "0 zones are wanted of 1"},
	} {
		for r := range uint64(20) {
			c.want.Random = r
			got, err := Choose(c.list, c.want)
			text := strings.Join(got, " ")
			if err != nil {
				text = err.Error()
			}
			if text != c.is {
				t.Errorf("%s: %q, want %q", name, text, c.is)
			}
		}
	}
	// Those that are alike are all taken, the same chance takes the same.
	seen := map[string]int{}
	for r := range uint64(1000) {
		list := zones(idle("a", 30*time.Millisecond), idle("b", 31*time.Millisecond), idle("c", 32*time.Millisecond))
		got, err := Choose(list, Want{Count: 1, Random: r})
		again, _ := Choose(list, Want{Count: 1, Random: r})
		if err != nil || !slices.Equal(got, again) {
			t.Fatalf("%v %v %v", got, again, err)
		}
		seen[got[0]]++
	}
	if seen["a"] < 400 || seen["b"] < 200 || seen["c"] < 50 {
		t.Errorf("%v", seen)
	}
}

// TestEach: in which zones a job runs that runs once in each.
func TestEach(t *testing.T) {
	dead := idle("dead", 0)
	dead.Health = Unhealthy
	list := zones(idle("near", 0), dead, idle("far", 300*time.Millisecond))
	for name, c := range map[string]struct {
		list []Candidate
		want Want
		is   string
	}{
		"all":            {list, Want{}, "dead far near"},
		"named":          {list, Want{Among: []string{"near", "dead"}}, "dead near"},
		"so many":        {list, Want{Count: 2}, "far near"},
		"so many among":  {list, Want{Count: 1, Among: []string{"far", "dead"}}, "far"},
		"unknown":        {list, Want{Among: []string{"near", "mars"}}, "no host is in zone mars"},
		"too many":       {list, Want{Count: 4}, "4 zones are wanted of 3"},
		"none there":     {nil, Want{}, "1 zones are wanted of 0"},
		"not so healthy": {list, Want{Count: 3}, "3 zones are wanted, and of 1 unhealthy ones nothing is to be expected: dead"},
	} {
		got, err := Each(c.list, c.want)
		text := strings.Join(got, " ")
		if err != nil {
			text = err.Error()
		}
		if text != c.is {
			t.Errorf("%s: %q, want %q", name, text, c.is)
		}
	}
	if list[0].Zone != "near" {
		t.Error("the list is in another order now")
	}
}

// TestChoicesAreNearAndEven has 20,000 jobs come to nine zones 20-300 ms away, each for two
// of them: beside zones drawn at random, those chosen are half as far at the median, and
// as many jobs run in each of those that are as near.
func TestChoicesAreNearAndEven(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	const slots, jobs, runs = 40, 20_000, 60
	type one struct {
		zones []int
		until int
	}
	rtts := []time.Duration{20, 22, 25, 150, 180, 200, 220, 260, 300}
	load := make([]int, len(rtts))
	var open []one
	var chosen, random []time.Duration
	var loads [3][]float64
	for now := range jobs {
		open = slices.DeleteFunc(open, func(o one) bool {
			if o.until > now {
				return false
			}
			for _, z := range o.zones {
				load[z]--
			}
			return true
		})
		list := make([]Candidate, len(rtts))
		for i, rtt := range rtts {
			list[i] = Candidate{Zone: fmt.Sprint(i), Health: Healthy, RTT: rtt * time.Millisecond, Slots: slots, Free: max(0, slots-load[i]), Queued: max(0, load[i]-slots)}
		}
		got, err := Choose(list, Want{Count: 2, Random: r.Uint64()})
		if err != nil {
			t.Fatal(err)
		}
		o := one{until: now + r.IntN(2*runs) + 1}
		for _, name := range got {
			z := int(name[0] - '0')
			load[z]++
			o.zones = append(o.zones, z)
			chosen = append(chosen, rtts[z])
			random = append(random, rtts[r.IntN(len(rtts))])
		}
		open = append(open, o)
		if now > 1000 {
			for i := range loads {
				loads[i] = append(loads[i], float64(load[i]))
			}
		}
	}
	slices.Sort(chosen)
	slices.Sort(random)
	got, other := chosen[len(chosen)/2], random[len(random)/2]
	mean := func(v []float64) (m float64) {
		for _, x := range v {
			m += x / float64(len(v))
		}
		return m
	}
	means := []float64{mean(loads[0]), mean(loads[1]), mean(loads[2])}
	m := mean(means)
	cv := 0.0
	for _, x := range means {
		cv += (x - m) * (x - m) / 3
	}
	cv = math.Sqrt(cv) / m
	t.Logf("median round trip %d ms, of zones at random %d ms; load of the three near ones %.1f, coefficient of variation %.3f", got, other, means, cv)
	if 2*got > other {
		t.Errorf("chosen zones are %d ms away, those at random %d ms", got, other)
	}
	if cv >= 0.3 {
		t.Errorf("the load varies by %.2f", cv)
	}
}

func FuzzChoose(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4}, uint64(1), 2)
	f.Fuzz(func(t *testing.T, in []byte, random uint64, count int) {
		var list []Candidate
		for i, b := range in {
			list = append(list, Candidate{
				Zone: fmt.Sprint(i), Health: Health(1 + b%4), RTT: time.Duration(int8(b)) * time.Millisecond * 10, Slots: int(b%7) - 1, Free: int(b%5) - 1, Queued: int(b%3) - 1,
			})
		}
		got, err := Choose(list, Want{Count: count, Random: random})
		if err != nil {
			return
		}
		if len(got) != count || len(slices.Compact(slices.Sorted(slices.Values(got)))) != count {
			t.Fatalf("%v of %d", got, count)
		}
		worst := Health(0)
		for _, name := range got {
			for _, c := range list {
				if c.Zone == name {
					if worst = max(worst, c.Health); c.Health == Unhealthy || math.IsNaN(c.Cost()) || math.IsInf(c.Cost(), 0) {
						t.Fatalf("%+v costs %v", c, c.Cost())
					}
				}
			}
		}
		for _, c := range list {
			if c.Health < worst && !slices.Contains(got, c.Zone) {
				t.Fatalf("%s is better than one that was chosen", c.Zone)
			}
		}
	})
}
