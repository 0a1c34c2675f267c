package status

import (
	"net/http"
	"strconv"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/status/door"
	"github.com/skein-project/skein/status/openapi"
)

var checkParams = []openapi.Param{
	{Name: "run", Type: uint64(0), About: "of that check, which goes on or has ended; without it, one is started"},
	{Name: "node", Type: "", About: "of another host's log"},
}

// checkLog answers GET /v1/events/verify: without run it starts a check, or
// joins the one that is running, and says how far it is; with run it tells of
// that one. node asks another host.
func (hs *handlers) checkLog(r *http.Request) (api.LogCheck, error) {
	var run uint64
	var node cluster.NodeID
	for name, values := range r.URL.Query() {
		var err error
		switch v := values[0]; name {
		case "run":
			run, err = strconv.ParseUint(v, 10, 64)
		case "node":
			node, err = cluster.ParseNodeID(v)
		}
		if err != nil {
			return api.LogCheck{}, api.Errorf(api.CodeInvalidRequest, "%s: %s", name, err)
		}
	}
	if node == hs.backend.Header().Node {
		node = ""
	}
	return hs.backend.CheckLog(r.Context(), node, run)
}

// takeSnapshot answers POST /v1/log/snapshots.
func (hs *handlers) takeSnapshot(r *http.Request, _ nothing) (api.LogSnapshotTaken, error) {
	return hs.backend.TakeSnapshot(r.Context(), door.Of(r.Context()).Actor())
}
