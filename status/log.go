package status

import (
	"net/http"
	"strconv"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/status/door"
)

// checkLog answers GET /v1/events/verify: without run it starts a check, or
// joins the one that is running, and says how far it is; with run it tells of
// that one. node asks another host.
func (hs *handlers) checkLog(_ http.ResponseWriter, r *http.Request) (any, error) {
	var run uint64
	var node cluster.NodeID
	for name, values := range r.URL.Query() {
		var err error
		switch v := values[0]; name {
		case "run":
			run, err = strconv.ParseUint(v, 10, 64)
		case "node":
			node, err = cluster.ParseNodeID(v)
		default:
			return nil, api.Errorf(api.CodeInvalidRequest, "unknown parameter %.64q", name)
		}
		if err != nil {
			return nil, api.Errorf(api.CodeInvalidRequest, "%s: %s", name, err)
		}
	}
	if node == hs.backend.Header().Node {
		node = ""
	}
	return hs.backend.CheckLog(r.Context(), node, run)
}

// takeSnapshot answers POST /v1/log/snapshots.
func (hs *handlers) takeSnapshot(w http.ResponseWriter, r *http.Request) (any, error) {
	var req struct{}
	if err := decode(w, r, &req); err != nil {
		return nil, err
	}
	return hs.backend.TakeSnapshot(r.Context(), door.Of(r.Context()).Actor())
}
