package status

import (
	"net/http"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/status/door"
)

func (hs *handlers) stepDown(r *http.Request, req api.StepDownRequest) (api.Lease, error) {
	if err := checkReason(req.Reason); err != nil {
		return api.Lease{}, err
	}
	if req.To != "" {
		if _, err := cluster.ParseNodeID(string(req.To)); err != nil {
			return api.Lease{}, api.Errorf(api.CodeInvalidRequest, "to: %s", err)
		}
	}
	return hs.backend.StepDown(r.Context(), door.Of(r.Context()).Actor(), req)
}

func (hs *handlers) setVoters(r *http.Request, req api.VotersRequest) (api.Voters, error) {
	if err := req.Check(); err != nil {
		return api.Voters{}, err
	}
	return hs.backend.SetVoters(r.Context(), door.Of(r.Context()).Actor(), req)
}
