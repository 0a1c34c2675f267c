package live

import (
	"reflect"
	"testing"

	"github.com/skein-project/skein/api"
)

// TestJoin: who takes in two answers at once has the same sum as who takes in both.
func TestJoin(t *testing.T) {
	answer := func(next string, again bool, names ...string) api.LoadLive {
		x := api.LoadLive{Next: next, Again: again, Seconds: 1, Steps: []api.LoadStep{}, Hosts: []api.LoadHostLive{{Host: "n1", Requests: 4}, {Host: "n2", Requests: 1}}}
		for _, n := range names {
			x.Steps = append(x.Steps, api.LoadStep{Name: n, Requests: 5, Failed: 1, Classes: map[string]uint64{"ok": 4, "timeout": 1}, Latency: api.LoadTimes{P50: 0.1}})
		}
		return x
	}
	for i, pair := range [][2]api.LoadLive{
		{answer("1", false, "a"), answer("2", false, "a", "b")},
		{answer("1", true, "a", "b"), answer("2", false, "b")},
		{answer("1", false, "a"), answer("2", true, "b")},
		{answer("1", false, "a"), answer("2", false)},
	} {
		var one, both Sum
		first := answer("0", false, "a")
		for _, x := range []api.LoadLive{first, pair[0], pair[1]} {
			both.Add(x)
		}
		joined := Join(pair[0], pair[1])
		one.Add(first)
		one.Add(joined)
		a, b := one.Now(), both.Now()
		if a.Rate, b.Rate = 0, 0; !reflect.DeepEqual(a, b) || one.After() != both.After() {
			t.Errorf("%d: %+v, want %+v", i, a, b)
		}
		if want := uint64(8); !pair[1].Again && joined.Hosts[0].Requests != want || joined.Hosts[1].Requests > 2 {
			t.Errorf("%d: hosts %+v", i, joined.Hosts)
		}
		if len(pair[0].Steps) > 0 && pair[0].Steps[0].Requests != 5 {
			t.Error("what was told is changed")
		}
	}
}
