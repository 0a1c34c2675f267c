package debug

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/status/door"
)

type fake struct{}

func (fake) Debug(_ context.Context, _ string, node cluster.NodeID, _ time.Duration) (api.DebugFiles, error) {
	if node == "n9" {
		return api.DebugFiles{}, api.Errorf(api.CodeNotReady, "n9 not reached")
	}
	return api.DebugFiles{Host: node}, nil
}

// TestDebugOnlyOnTheSocket: who came over TCP, signed, or is no administrator gets nothing.
func TestDebugOnlyOnTheSocket(t *testing.T) {
	for _, c := range []struct {
		name string
		peer door.Peer
		url  string
		want api.Code
	}{
		{"an administrator", door.Peer{Admin: true, Role: access.Operator}, "/v1/debug?node=n2&profile_seconds=10", ""},
		{"a reader on the socket", door.Peer{UID: 1000}, "/v1/debug", api.CodeForbidden},
		{"an operator over TCP", door.Peer{TCP: true, User: "user:ann", Role: access.Operator}, "/v1/debug", api.CodeForbidden},
		{"an operator who signs on the socket", door.Peer{Admin: true, User: "user:ann", Role: access.Operator}, "/v1/debug", api.CodeForbidden},
		{"too long a profile", door.Peer{Admin: true}, "/v1/debug?profile_seconds=11", api.CodeInvalidRequest},
		{"no name", door.Peer{Admin: true}, "/v1/debug?node=..%2F", api.CodeInvalidRequest},
		{"a host that is gone", door.Peer{Admin: true}, "/v1/debug?node=n9", api.CodeNotReady},
	} {
		r := httptest.NewRequestWithContext(door.With(t.Context(), c.peer), http.MethodGet, c.url, nil)
		d, err := Files(fake{}, r)
		if c.want == "" {
			if err != nil || d.Host != cluster.NodeID("n2") {
				t.Errorf("%s: %v, %v", c.name, d, err)
			}
		} else if !api.IsCode(err, c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}
