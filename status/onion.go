package status

import (
	"context"
	"net/http"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/status/door"
)

// OnionControl shows and changes the onion addresses of the cluster. Addresses
// are texts as they came.
type OnionControl interface {
	Onion(ctx context.Context) (api.Onion, error)
	AddOnion(ctx context.Context, actor string, req api.OnionRequest) (api.OnionChanged, error)
	RemoveOnion(ctx context.Context, actor, address string) (api.OnionChanged, error)
	SetOnionClients(ctx context.Context, actor, address string, req api.OnionClientsRequest) (api.OnionChanged, error)
	// GrantOnion returns when the other host has the key on its disk.
	GrantOnion(ctx context.Context, actor, address string, node cluster.NodeID) (api.OnionGranted, error)
	ExportOnion(ctx context.Context, actor, address string) (api.OnionKey, error)
	VerifyOnion(ctx context.Context, address string) (api.OnionVerified, error)
	DrainOnion(ctx context.Context, actor string, req api.OnionDrainRequest) (api.OnionDrained, error)
	RotateOnion(ctx context.Context, actor string) (api.OnionRotated, error)
}

func (hs *handlers) onionRoutes() []route {
	b := hs.backend
	return []route{
		read("/v1/onion", b.Onion),
		change(http.MethodPost, "/v1/onion", hs.addOnion),
		change(http.MethodPost, "/v1/onion/drain", hs.drainOnion),
		change(http.MethodPost, "/v1/onion/rotate", hs.rotateOnion),
		change(http.MethodDelete, "/v1/onion/{address}", func(_ http.ResponseWriter, r *http.Request) (any, error) {
			return b.RemoveOnion(r.Context(), door.Of(r.Context()).Actor(), r.PathValue("address"))
		}),
		change(http.MethodPut, "/v1/onion/{address}/clients", hs.setOnionClients),
		change(http.MethodPost, "/v1/onion/{address}/grant", hs.grantOnion),
		change(http.MethodPost, "/v1/onion/{address}/export", func(_ http.ResponseWriter, r *http.Request) (any, error) {
			return b.ExportOnion(r.Context(), door.Of(r.Context()).Actor(), r.PathValue("address"))
		}),
		change(http.MethodPost, "/v1/onion/{address}/verify", func(_ http.ResponseWriter, r *http.Request) (any, error) {
			return b.VerifyOnion(r.Context(), r.PathValue("address"))
		}),
	}
}

func (hs *handlers) addOnion(w http.ResponseWriter, r *http.Request) (any, error) {
	var req api.OnionRequest
	if err := decode(w, r, &req); err != nil {
		return nil, err
	}
	return hs.backend.AddOnion(r.Context(), door.Of(r.Context()).Actor(), req)
}

func (hs *handlers) setOnionClients(w http.ResponseWriter, r *http.Request) (any, error) {
	var req api.OnionClientsRequest
	if err := decode(w, r, &req); err != nil {
		return nil, err
	}
	return hs.backend.SetOnionClients(r.Context(), door.Of(r.Context()).Actor(), r.PathValue("address"), req)
}

func (hs *handlers) grantOnion(w http.ResponseWriter, r *http.Request) (any, error) {
	var req api.OnionGrantRequest
	if err := decode(w, r, &req); err != nil {
		return nil, err
	}
	if _, err := cluster.ParseNodeID(string(req.Node)); err != nil {
		return nil, api.Errorf(api.CodeInvalidRequest, "node: %s", err)
	}
	return hs.backend.GrantOnion(r.Context(), door.Of(r.Context()).Actor(), r.PathValue("address"), req.Node)
}

func (hs *handlers) drainOnion(w http.ResponseWriter, r *http.Request) (any, error) {
	var req api.OnionDrainRequest
	if err := decode(w, r, &req); err != nil {
		return nil, err
	}
	if req.Node != "" {
		if _, err := cluster.ParseNodeID(string(req.Node)); err != nil {
			return nil, api.Errorf(api.CodeInvalidRequest, "node: %s", err)
		}
	}
	return hs.backend.DrainOnion(r.Context(), door.Of(r.Context()).Actor(), req)
}

func (hs *handlers) rotateOnion(_ http.ResponseWriter, r *http.Request) (any, error) {
	return hs.backend.RotateOnion(r.Context(), door.Of(r.Context()).Actor())
}
