package debug

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/status/door"
	"github.com/skein-project/skein/status/openapi"
)

// Source has the files.
type Source interface {
	// Debug gathers the files about a host, empty: this one, with a profile of the
	// processor over so long.
	Debug(ctx context.Context, actor string, node cluster.NodeID, profile time.Duration) (api.DebugFiles, error)
}

// Params are what Files reads.
var Params = []openapi.Param{
	{Name: "node", Type: "", About: "of this host; empty: of the one that is asked"},
	{Name: "profile_seconds", Type: uint64(0), About: "also a profile of the processor over so long, at most 10"},
}

// Files gathers what a host knows of itself. Stacks and metrics say more than an operator
// from outside need see, so administrators ask, on the socket.
func Files(from Source, r *http.Request) (api.DebugFiles, error) {
	who := door.Of(r.Context())
	if !who.Admin || who.TCP || who.User != "" {
		return api.DebugFiles{}, api.Errorf(api.CodeForbidden, "only an administrator of the host may ask for this, on its socket").
			WithHint("run it on the host itself, as root or as a member of status.group")
	}
	var node cluster.NodeID
	var seconds uint64
	for name, values := range r.URL.Query() {
		var err error
		switch v := values[0]; name {
		case "profile_seconds":
			if seconds, err = strconv.ParseUint(v, 10, 8); err == nil && seconds > uint64(api.MaxDebugProfile/time.Second) {
				err = strconv.ErrRange
			}
		case "node":
			node, err = cluster.ParseNodeID(v)
		}
		if err != nil {
			return api.DebugFiles{}, api.Errorf(api.CodeInvalidRequest, "%s: %s", name, err)
		}
	}
	return from.Debug(r.Context(), who.Actor(), node, time.Duration(seconds)*time.Second) //nolint:gosec // at most 10
}
