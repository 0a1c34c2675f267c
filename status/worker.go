package status

import (
	"net/http"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/status/door"
)

func (hs *handlers) drain(r *http.Request, req api.DrainRequest) (api.Drain, error) {
	if req.Node != "" {
		if _, err := cluster.ParseNodeID(string(req.Node)); err != nil {
			return api.Drain{}, api.Errorf(api.CodeInvalidRequest, "node: %s", err)
		}
	}
	return hs.backend.Drain(r.Context(), door.Of(r.Context()).Actor(), req)
}
