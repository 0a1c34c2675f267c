package live

import (
	"fmt"
	"testing"

	"github.com/skein-project/skein/api"
)

// TestSum: what a follower is told adds up, whatever comes again; an answer in which nothing
// has ended leaves the latency as it was.
func TestSum(t *testing.T) {
	step := func(name string, ok, timeouts uint64, p50 float64) api.LoadStep {
		return api.LoadStep{Name: name, Requests: ok + timeouts, Failed: timeouts, Dropped: 1, Classes: map[string]uint64{"ok": ok, "timeout": timeouts}, Checks: api.LoadChecks{Passed: ok}, Latency: api.LoadTimes{P50: p50}}
	}
	var s Sum
	show := func() string {
		n := s.Now()
		out := fmt.Sprintf("%s %d/%d/%d %g/s %g", s.After(), n.Requests, n.Failed, n.Dropped, n.Rate, n.Latency.P50)
		for _, st := range n.Steps {
			out += fmt.Sprintf(" %s=%v,%d,%g", st.Name, st.Classes, st.Checks.Passed, st.Latency.P50)
		}
		return out
	}
	for i, c := range []struct {
		x    api.LoadLive
		want string
	}{
		{api.LoadLive{Next: "", Doing: "hosts are asked"}, " 0/0/0 0/s 0"},
		{api.LoadLive{Next: "1", Seconds: 2, Latency: api.LoadTimes{P50: 0.1}, Steps: []api.LoadStep{step("a", 9, 1, 0.1)}}, "1 10/1/1 5/s 0.1 a=map[ok:9 timeout:1],9,0.1"},
		{api.LoadLive{Next: "2", Seconds: 1, Latency: api.LoadTimes{P50: 0.2}, Steps: []api.LoadStep{step("a", 1, 0, 0), step("b", 2, 0, 0.2)}}, "2 13/1/3 3/s 0.2 a=map[ok:10 timeout:1],10,0.1 b=map[ok:2 timeout:0],2,0.2"},
		{api.LoadLive{Next: "2"}, "2 13/1/3 3/s 0.2 a=map[ok:10 timeout:1],10,0.1 b=map[ok:2 timeout:0],2,0.2"},
		{api.LoadLive{Next: "9", Again: true, Seconds: 10, Steps: []api.LoadStep{step("b", 5, 0, 0.3)}}, "9 5/0/1 0.5/s 0.2 b=map[ok:5 timeout:0],5,0.3"},
	} {
		if s.Add(c.x); show() != c.want {
			t.Errorf("%d: %s, want %s", i, show(), c.want)
		}
	}
}

// TestRateOfHosts: the rate is of all hosts, though each answer is of one.
func TestRateOfHosts(t *testing.T) {
	var s Sum
	for second := 1; second <= 20; second++ {
		for host := range 3 {
			s.Add(api.LoadLive{Next: fmt.Sprint(second, host), At: float64(second), Seconds: 1, Steps: []api.LoadStep{{Name: "a", Requests: 10}}})
		}
		if r := s.Now().Rate; second > 5 && (r < 30 || r > 35) {
			t.Errorf("after %d s: %g/s, want 30/s", second, r)
		}
	}
	if len(s.near) > 3*recent+3 {
		t.Errorf("%d are kept", len(s.near))
	}
}
