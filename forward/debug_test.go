package forward

import (
	"context"
	"testing"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// TestDebugOfASponsor: of a plain member, who on it asked is not known here, so it gets
// nothing.
func TestDebugOfASponsor(t *testing.T) {
	r, err := New(Options{
		Self: "n1", Lease: func() Lease { return Lease{} }, IsSponsor: func(n cluster.NodeID) bool { return n == "n2" },
	})
	if err != nil {
		t.Fatal(err)
	}
	gathered := 0
	Handle(r, Debug, func(_ context.Context, _ Asker, req DebugRequest) (api.DebugFiles, error) {
		gathered++
		return api.DebugFiles{Host: "n1"}, req.Ask().Check()
	})
	for _, c := range []struct {
		from cluster.NodeID
		req  DebugRequest
		want api.Code
	}{
		{"n2", DebugRequest{ProfileSeconds: 10}, ""},
		{"n3", DebugRequest{}, api.CodeForbidden},
		{"n2", DebugRequest{ProfileSeconds: 11}, api.CodeInvalidRequest},
		{"n2", DebugRequest{ProfileSeconds: -1}, api.CodeInvalidRequest},
		{"n2", DebugRequest{SinceSeconds: -1}, api.CodeInvalidRequest},
		{"n2", DebugRequest{SinceSeconds: 1 << 62}, api.CodeInvalidRequest},
	} {
		asking, err := New(Options{Self: c.from, Lease: func() Lease { return Lease{} }, Dial: pipes(c.from, &r)})
		if err != nil {
			t.Fatal(err)
		}
		d, err := AskHost(t.Context(), asking, Debug, "n1", "uid:0@"+string(c.from), c.req)
		if c.want == "" && (err != nil || d.Host != "n1") || c.want != "" && !api.IsCode(err, c.want) {
			t.Errorf("%s asks %+v: %v, want %q", c.from, c.req, err, c.want)
		}
	}
	if gathered != 1 {
		t.Errorf("gathered %d times", gathered)
	}
	if _, err := AskHost(t.Context(), r, Debug, "n1", "uid:0@n1", DebugRequest{}); err != nil {
		t.Errorf("of itself: %v", err)
	}
}
