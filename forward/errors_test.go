package forward

import (
	"errors"
	"strings"
	"testing"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// TestMostTellingRefusal picks among what several sponsors answered.
func TestMostTellingRefusal(t *testing.T) {
	no := failure{Problem: api.Errorf(api.CodeConflict, "no majority")}
	lacks := failureOf(Lacking(api.Errorf(api.CodeConflict, "no root key")), internal)
	second := failureOf(Lacking(api.Errorf(api.CodeConflict, "no root key here either")), internal)
	down := errors.New("timeout")
	for _, tt := range []struct {
		name string
		in   []any
		want string
	}{
		{"none", nil, "no sponsor is alive"},
		{"down", []any{down}, "sponsor not reached: timeout"},
		{"the last is down", []any{lacks, down}, "no root key"},
		{"the first is down", []any{down, lacks, second}, "no root key"},
		{"a reason among excuses", []any{lacks, no, second, down}, "no majority"},
	} {
		var r refusals
		for _, x := range tt.in {
			if f, ok := x.(failure); ok {
				r.add(f)
			} else {
				r.unreached(down)
			}
		}
		if p := r.worst(); p.Detail != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, p.Detail, tt.want)
		}
	}
	if h := SponsorHint([]cluster.NodeID{"n1", "n3"}); !strings.HasSuffix(h, "n1 or n3") {
		t.Error(h)
	}
}
