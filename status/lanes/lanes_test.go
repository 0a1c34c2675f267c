package lanes

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/skein-project/skein/overload"
)

func TestCheck(t *testing.T) {
	all := slices.Collect(maps.Keys(of))
	if err := Check(all); err != nil {
		t.Error(err)
	}
	if err := Check(append(slices.Clone(all), "GET /v1/news")); err == nil || !strings.Contains(err.Error(), "GET /v1/news has no lane") {
		t.Errorf("a route without a lane: %v", err)
	}
	if err := Check(slices.DeleteFunc(slices.Clone(all), func(r string) bool { return r == "GET /v1/jobs" })); err == nil {
		t.Error("a lane without a route is not noticed")
	}
}

// TestNeverShed: what ends an overload, or shows it, gets through a host that is critical.
func TestNeverShed(t *testing.T) {
	for _, r := range []string{
		"GET /healthz", "GET /readyz", "GET /metrics", "GET /v1/status", "GET /v1/overload", "POST /v1/jobs/{id}/stop", "POST /v1/workflows/{id}/stop",
		"POST /v1/worker/drain", "POST /v1/lease/step-down",
	} {
		if overload.Critical.Sheds(of[r]) {
			t.Errorf("%s is shed", r)
		}
	}
	if l := of["POST /v1/jobs"]; overload.High.Sheds(l) || !overload.Severe.Sheds(l) {
		t.Error("submissions are refused from severe on")
	}
}
