package status

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
)

// TestGroupBodies refuses what no group can be.
func TestGroupBodies(t *testing.T) {
	r := start(t, newFake(), nil)
	for name, c := range map[string]struct{ path, body string }{
		"name":     {"/v1/groups/UPPER", `{"members":["a"]}`},
		"long":     {"/v1/groups/" + strings.Repeat("x", cluster.MaxGroupName+1), `{"members":["a"]}`},
		"blank":    {"/v1/groups/g", `{"members":["a b"]}`},
		"empty":    {"/v1/groups/g", `{"members":[""]}`},
		"too many": {"/v1/groups/g", `{"members":[` + manyMembers(cluster.MaxGroupMembers+1) + `]}`},
		"type":     {"/v1/groups/g", `{"members":"a"}`},
		"unknown":  {"/v1/groups/g", `{"people":["a"]}`},
	} {
		if code, _, text := r.ask(t, http.MethodPut, c.path, c.body); code != http.StatusBadRequest {
			t.Errorf("%s: status %d, want 400: %s", name, code, text)
		}
	}
	if code, _, text := r.ask(t, http.MethodPut, "/v1/groups/render", `{"members":[`+manyMembers(cluster.MaxGroupMembers)+`]}`); code != http.StatusOK {
		t.Errorf("the longest group: status %d, %s", code, text)
	}
}

func manyMembers(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%q", fmt.Sprintf("uid:%0120d", i))
	}
	return strings.Join(names, ",")
}
