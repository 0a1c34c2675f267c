package gang

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
)

func TestChoose(t *testing.T) {
	host := func(n string, rate float64, users int, why string) Host {
		return Host{cluster.NodeID(n), Offer{Why: why, MaxRate: rate, MaxUsers: users}}
	}
	all := []Host{host("a", 100, 0, ""), host("b", 300, 0, ""), host("c", 300, 0, ""), host("d", 0, 0, "load.targets has nothing for x:80"), host("e", 50, 10, "")}
	for _, c := range []struct {
		p    Plan
		want string
	}{
		{Plan{Rate: 50}, "[{b 1 }]"},
		{Plan{Rate: 500}, "[{b 1 } {c 1 }]"},
		{Plan{Rate: 700}, "[{a 21 } {b 64 } {c 64 }]"},
		{Plan{Rate: 900}, "900 requests/s"},
		{Plan{Hosts: 4, Rate: 100}, "[{a 1 } {b 1 } {c 1 } {e 1 }]"},
		{Plan{Hosts: 5}, "d: load.targets has nothing for x:80"},
		{Plan{On: []cluster.NodeID{"a", "e"}, Rate: 150}, "[{a 64 } {e 32 }]"},
		{Plan{On: []cluster.NodeID{"a", "d"}}, "1 of 2 hosts may take part: d:"},
		{Plan{On: []cluster.NodeID{"z"}}, "z is no member"},
		{Plan{On: []cluster.NodeID{"e"}, Users: 11}, "11 users"},
		{Plan{Users: 1000}, "[{b 1 }]"},
		{Plan{On: []cluster.NodeID{"r"}, Rate: 10, Rise: 11}, "rises by 11 requests/s each second; ramp in load.targets of the hosts allows 10"},
		{Plan{On: []cluster.NodeID{"a", "r"}, Rate: 10, Rise: 11}, "[{a 1 } {r 1 }]"},
		{Plan{On: []cluster.NodeID{"a", "r"}, Rate: 10, Rise: 40}, "[{a 64 } {r 16 }]"},
		{Plan{On: []cluster.NodeID{"r"}, Users: 6, Connections: 6}, "connections in load.targets of the hosts allow 5 together"},
		{Plan{On: []cluster.NodeID{"r"}, Users: 5, Connections: 5}, "[{r 1 }]"},
	} {
		got, err := Choose(c.p, append(slices.Clip(all), Host{"r", Offer{MaxRate: 40, MaxRamp: 10, MaxConnections: 5}})[:len(all)+min(1, len(c.p.On))])
		text := fmt.Sprint(got)
		if err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, c.want) {
			t.Errorf("%+v: %s, want %s", c.p, text, c.want)
		}
	}
}

func TestOffset(t *testing.T) {
	if Offset(nil).OK {
		t.Error("an offset of nothing")
	}
	list := []Sample{
		{Asked: 100, Heard: 5150, Said: 5150, Answered: 200},
		{Asked: 300, Heard: 5306, Said: 5306, Answered: 310},
		{Asked: 400, Heard: 1, Said: 1, Answered: 390},       // before it was asked
		{Asked: 500, Heard: 5510, Said: 5505, Answered: 501}, // said before it was heard
	}
	if got := Offset(list); got != (Reading{Ahead: 5001, Uncertain: 5, OK: true}) {
		t.Error(got)
	}
	// The time for which an answer waits is none for which it is under way.
	if got := Offset(append(list, Sample{Asked: 600, Heard: 5603, Said: 6603, Answered: 1606})); got != (Reading{Ahead: 5000, Uncertain: 3, OK: true}) {
		t.Error(got)
	}
}

// TestRedistribute: those who go on have all of the plan, or as much as each of them may.
func TestRedistribute(t *testing.T) {
	host := func(rate float64, why string) Host { return Host{"h", Offer{MaxRate: rate, Why: why}} }
	for _, c := range []struct {
		hosts []Host
		old   []int
		sum   int
		want  string
	}{
		{[]Host{host(0, ""), host(0, "")}, []int{1, 1}, 3, "[256 256] 0"},
		{[]Host{host(0, ""), host(0, "")}, []int{64, 32}, 100, "[341 170] 0"},
		{[]Host{host(50, ""), host(0, "")}, []int{1, 1}, 3, "[256 256] 0"},
		{[]Host{host(25, ""), host(0, "")}, []int{1, 1}, 4, "[128 384] 0"},         // the second has what the first may not
		{[]Host{host(25, ""), host(50, "")}, []int{1, 1}, 4, "[128 256 128] 0.25"}, // a quarter is nobody's
		{[]Host{host(0, "not heard")}, []int{1}, 2, "[256 256] 0.5"},
		{[]Host{host(0, "not heard"), host(0, "")}, []int{1, 1}, 4, "[128 384] 0"},
	} {
		shares, rest := Redistribute(Plan{Rate: 100}, c.hosts, c.old, c.sum)
		if got := fmt.Sprint(shares, math.Round(rest*1e6)/1e6); got != c.want {
			t.Errorf("%+v %v of %d: %s, want %s", c.hosts, c.old, c.sum, got, c.want)
		}
	}
}
