package status

import (
	"net/http"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/status/door"
)

func (hs *handlers) drain(r *http.Request, req api.DrainRequest) (api.Drain, error) {
	if err := target(hs.answers.door, r, req.Node); err != nil {
		return api.Drain{}, err
	}
	return hs.backend.Drain(r.Context(), door.Of(r.Context()).Actor(), req)
}

// target checks which host a request is about. None is this one, which the proof must
// name then.
func target(who *door.Door, r *http.Request, node cluster.NodeID) error {
	if node == "" {
		if prob := who.Here(r); prob != nil {
			return prob
		}
		return nil
	}
	if _, err := cluster.ParseNodeID(string(node)); err != nil {
		return api.Errorf(api.CodeInvalidRequest, "node: %s", err)
	}
	return nil
}
