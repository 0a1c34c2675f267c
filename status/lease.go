package status

import (
	"net/http"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/status/door"
)

func (hs *handlers) stepDown(w http.ResponseWriter, r *http.Request) (any, error) {
	var req api.StepDownRequest
	if err := decode(w, r, &req); err != nil {
		return nil, err
	}
	if err := checkReason(req.Reason); err != nil {
		return nil, err
	}
	if req.To != "" {
		if _, err := cluster.ParseNodeID(string(req.To)); err != nil {
			return nil, api.Errorf(api.CodeInvalidRequest, "to: %s", err)
		}
	}
	return hs.backend.StepDown(r.Context(), door.Of(r.Context()).Actor(), req)
}

func (hs *handlers) setVoters(w http.ResponseWriter, r *http.Request) (any, error) {
	var req api.VotersRequest
	if err := decode(w, r, &req); err != nil {
		return nil, err
	}
	if err := req.Check(); err != nil {
		return nil, err
	}
	return hs.backend.SetVoters(r.Context(), door.Of(r.Context()).Actor(), req)
}
