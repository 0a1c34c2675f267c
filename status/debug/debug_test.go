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

func (fake) Debug(_ context.Context, _ string, node cluster.NodeID, ask api.DebugAsk) (api.DebugFiles, error) {
	if ask.Carried {
		node += "-carried"
	}
	if node == "n9" {
		return api.DebugFiles{}, api.Errorf(api.CodeNotReady, "n9 not reached")
	}
	return api.DebugFiles{Host: node}, nil
}

// TestDebugOnlyOnTheSocket: who came over TCP or is no administrator gets nothing, unless
// an operator has signed for this host what another one brings.
func TestDebugOnlyOnTheSocket(t *testing.T) {
	later := time.Now().Add(time.Hour)
	for _, c := range []struct {
		name string
		peer door.Peer
		url  string
		host cluster.NodeID
		want api.Code
	}{
		{"an administrator", door.Peer{Admin: true, Role: access.Operator}, "/v1/debug?node=n2&profile_seconds=10", "n2", ""},
		{"a reader on the socket", door.Peer{UID: 1000}, "/v1/debug", "", api.CodeForbidden},
		{"an operator over TCP", door.Peer{TCP: true, User: "user:ann", Role: access.Operator}, "/v1/debug", "", api.CodeForbidden},
		{"an administrator who signs as an operator", door.Peer{Admin: true, User: "user:ann", Role: access.Operator}, "/v1/debug?node=n2", "n2", ""},
		{"a reader on the socket who signs", door.Peer{UID: 1000, User: "user:ann", Role: access.Operator}, "/v1/debug", "", api.CodeForbidden},
		{"an administrator with a token", door.Peer{Admin: true, User: "user:ann", Role: access.Operator, Ends: later}, "/v1/debug?node=n2", "", api.CodeForbidden},
		{"brought by another host", door.Peer{TCP: true, Users: true, Carried: true, User: "user:ann", Role: access.Operator}, "/v1/debug?node=n2", "n2-carried", ""},
		{"brought, and meant for another", door.Peer{TCP: true, Users: true, Carried: true, User: "user:ann", Role: access.Operator}, "/v1/debug", "", api.CodeForbidden},
		{"brought with a token", door.Peer{TCP: true, Users: true, Carried: true, User: "user:ann", Role: access.Operator, Ends: later}, "/v1/debug?node=n2", "", api.CodeForbidden},
		{"too long a profile", door.Peer{Admin: true}, "/v1/debug?profile_seconds=11", "", api.CodeInvalidRequest},
		{"of another time", door.Peer{Admin: true}, "/v1/debug?since_seconds=99999999999", "", api.CodeInvalidRequest},
		{"no yes and no no", door.Peer{Admin: true}, "/v1/debug?log=maybe", "", api.CodeInvalidRequest},
		{"with the log", door.Peer{Admin: true}, "/v1/debug?node=n2&since_seconds=3600&log=true", "n2", ""},
		{"no name", door.Peer{Admin: true}, "/v1/debug?node=..%2F", "", api.CodeInvalidRequest},
		{"a host that is gone", door.Peer{Admin: true}, "/v1/debug?node=n9", "", api.CodeNotReady},
	} {
		r := httptest.NewRequestWithContext(door.With(t.Context(), c.peer), http.MethodGet, c.url, nil)
		d, err := Files(fake{}, r)
		if c.want == "" {
			if err != nil || d.Host != c.host {
				t.Errorf("%s: %v, %v", c.name, d, err)
			}
		} else if !api.IsCode(err, c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}
