package status

import (
	"net/http"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/status/door"
	"github.com/skein-project/skein/status/query"
)

// members answers GET /v1/members, with ?all also who is gone.
func (hs *handlers) members(r *http.Request) (api.Members, error) {
	all, err := query.FlagOf(r, "all")
	if err != nil {
		return api.Members{}, err
	}
	return hs.backend.Members(r.Context(), all)
}

func (hs *handlers) leave(r *http.Request, _ nothing) (api.Left, error) {
	return hs.backend.Leave(r.Context(), door.Of(r.Context()).Actor())
}

func (hs *handlers) remove(r *http.Request, req api.RemoveRequest) (api.Removed, error) {
	if err := req.Check(); err != nil {
		return api.Removed{}, err
	}
	node, err := cluster.ParseNodeID(r.PathValue("node"))
	if err != nil {
		return api.Removed{}, api.Errorf(api.CodeNotFound, "no member %.64q", r.PathValue("node")).WithHint("see `skein members`")
	}
	if node == hs.backend.Header().Node && door.Of(r.Context()).User == "" { // a user may mean any host
		return api.Removed{}, api.Errorf(api.CodeConflict, "%s is this host", node).WithHint("to leave the cluster: `skein leave`")
	}
	return hs.backend.Remove(r.Context(), door.Of(r.Context()).Actor(), node, req.Reason)
}

func (hs *handlers) rotate(r *http.Request, _ nothing) (api.Rotated, error) {
	return hs.backend.RotateKey(r.Context(), door.Of(r.Context()).Actor())
}

// doctor runs one examination at a time: it writes to the disk.
func (hs *handlers) doctor(r *http.Request) (api.Doctor, error) {
	select {
	case hs.examining <- struct{}{}:
		defer func() { <-hs.examining }()
		return hs.backend.Doctor(r.Context())
	default:
		return api.Doctor{}, api.Errorf(api.CodeOverloaded, "another examination is running")
	}
}
