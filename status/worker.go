package status

import (
	"net/http"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/status/door"
)

func (hs *handlers) drain(w http.ResponseWriter, r *http.Request) (any, error) {
	var req api.DrainRequest
	if err := decode(w, r, &req); err != nil {
		return nil, err
	}
	if req.Node != "" {
		if _, err := cluster.ParseNodeID(string(req.Node)); err != nil {
			return nil, api.Errorf(api.CodeInvalidRequest, "node: %s", err)
		}
	}
	return hs.backend.Drain(r.Context(), door.Of(r.Context()).Actor(), req)
}
