package lanes

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/skein-project/skein/overload"
)

const (
	get    = http.MethodGet + " "
	put    = http.MethodPut + " "
	post   = http.MethodPost + " "
	remove = http.MethodDelete + " "
)

// of has the lane of each route.
var of = map[string]overload.Lane{
	// What probes and operators need while it burns, and what ends it.
	get + "/healthz": overload.Control, get + "/readyz": overload.Control, get + "/metrics": overload.Control,
	get + "/v1/status": overload.Control, get + "/v1/overload": overload.Control, get + "/v1/lease": overload.Control, get + "/v1/version": overload.Control, get + "/v1/whoami": overload.Control,
	get + "/v1/doctor": overload.Control, get + "/v1/debug": overload.Control, get + "/v1/config": overload.Control,
	post + "/v1/jobs/{id}/stop": overload.Control, post + "/v1/workflows/{id}/stop": overload.Control, post + "/v1/worker/drain": overload.Control,
	post + "/v1/lease/step-down": overload.Control, post + "/v1/lease/voters": overload.Control, post + "/v1/leave": overload.Control,
	post + "/v1/members/{node}/remove": overload.Control, post + "/v1/mesh/rotate": overload.Control,
	remove + "/v1/gateway/workers/{worker}": overload.Control, remove + "/v1/gateway/tokens/{id}": overload.Control, remove + "/v1/tokens/{id}": overload.Control, remove + "/v1/reservations/{name}": overload.Control,

	put + "/v1/artefacts": overload.Assign,

	post + "/v1/jobs": overload.Submit, post + "/v1/jobs/{id}/release": overload.Submit,
	post + "/v1/workflows": overload.Submit, post + "/v1/workflows/{id}/retry": overload.Submit,

	post + "/v1/load": overload.Submit, post + "/v1/load/{id}/stop": overload.Control, get + "/v1/load": overload.List, get + "/v1/load/{id}": overload.Status,
	get + "/v1/load/{id}/live": overload.List, get + "/v1/load/{id}/follow": overload.List, get + "/v1/load/{id}/report": overload.List,
	get + "/v1/jobs/{id}": overload.Status, get + "/v1/jobs/{id}/explain": overload.Status, get + "/v1/jobs/{id}/map": overload.Status,
	put + "/v1/schedules/{id}": overload.Status, remove + "/v1/schedules/{id}": overload.Control,
	post + "/v1/schedules/{id}/pause": overload.Control, post + "/v1/schedules/{id}/resume": overload.Submit, post + "/v1/schedules/{id}/run": overload.Submit,
	get + "/v1/schedules/{id}": overload.Status, get + "/v1/schedules": overload.List,
	get + "/v1/workflows/{id}": overload.Status, get + "/v1/events/{node}/{inc}/{seq}": overload.Status, get + "/v1/mesh": overload.Status,
	get + "/v1/zones": overload.Status, get + "/v1/lease/voters": overload.Status, get + "/v1/log/snapshots": overload.Status, get + "/v1/openapi.json": overload.Status,
	put + "/v1/users/{name}": overload.Status, put + "/v1/members/{node}/owner": overload.Status, put + "/v1/groups/{name}": overload.Status, put + "/v1/reservations/{name}": overload.Status,
	post + "/v1/gateway/workers": overload.Status, post + "/v1/gateway/tokens": overload.Status, post + "/v1/tokens": overload.Status,
	post + "/v1/log/snapshots": overload.Status, get + "/v1/gateway": overload.Status,

	get + "/v1/members": overload.List, get + "/v1/workers": overload.List, get + "/v1/jobs": overload.List, get + "/v1/workflows": overload.List,
	get + "/v1/jobs/{id}/watch": overload.List, get + "/v1/jobs/{id}/chunks": overload.List, get + "/v1/jobs/{id}/logs": overload.List, get + "/v1/jobs/{id}/outputs": overload.List, get + "/v1/jobs/{id}/outputs/{chunk}/{name}": overload.List, get + "/v1/events": overload.List, get + "/v1/watch": overload.List,
	get + "/v1/users": overload.List, get + "/v1/groups": overload.List, get + "/v1/reservations": overload.List, get + "/v1/tokens": overload.List,
	get + "/v1/gateway/workers": overload.List, get + "/v1/gateway/tokens": overload.List,

	get + "/v1/lease/history": overload.Telemetry, get + "/v1/jobs/{id}/series": overload.Telemetry, get + "/v1/jobs/{id}/history": overload.Telemetry,
	get + "/v1/replay": overload.Telemetry, get + "/v1/log/density": overload.Telemetry, get + "/v1/events/verify": overload.Telemetry,
}

// Of is the lane of a route; false: it has none.
func Of(method, path string) (overload.Lane, bool) {
	if strings.HasPrefix(path, "/v1/onion") {
		return overload.Status, true // what publishes goes on without anybody asking
	}
	l, ok := of[method+" "+path]
	return l, ok
}

// Check says which of the routes, "GET /v1/status", has no lane, and which lane no route.
func Check(routes []string) error {
	for _, r := range routes {
		method, path, _ := strings.Cut(r, " ")
		if l, ok := Of(method, path); !ok || !l.Known() {
			return fmt.Errorf("%s has no lane: see package lanes", r)
		}
	}
	for _, r := range slices.Sorted(maps.Keys(of)) {
		if !slices.Contains(routes, r) && r != get+"/metrics" {
			return fmt.Errorf("%s has a lane, and is no route", r)
		}
	}
	return nil
}
