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
	// PublishOnion has the host that publishes the address make new descriptors.
	PublishOnion(ctx context.Context, actor, address string) (api.OnionPublished, error)
	DrainOnion(ctx context.Context, actor string, req api.OnionDrainRequest) (api.OnionDrained, error)
	RotateOnion(ctx context.Context, actor string) (api.OnionRotated, error)
}

func (hs *handlers) onionRoutes() []route {
	b := hs.backend
	return []route{
		read("/v1/onion", b.Onion),
		change(http.MethodPost, "/v1/onion", hs.addOnion),
		named(change(http.MethodPost, "/v1/onion/drain", hs.drainOnion)),
		change(http.MethodPost, "/v1/onion/rotate", hs.rotateOnion),
		named(change(http.MethodDelete, "/v1/onion/{address}", func(r *http.Request, _ nothing) (api.OnionChanged, error) {
			return b.RemoveOnion(r.Context(), door.Of(r.Context()).Actor(), r.PathValue("address"))
		})),
		named(change(http.MethodPut, "/v1/onion/{address}/clients", hs.setOnionClients)),
		named(change(http.MethodPost, "/v1/onion/{address}/grant", hs.grantOnion)),
		change(http.MethodPost, "/v1/onion/{address}/export", func(r *http.Request, _ nothing) (api.OnionKey, error) {
			return b.ExportOnion(r.Context(), door.Of(r.Context()).Actor(), r.PathValue("address"))
		}),
		named(change(http.MethodPost, "/v1/onion/{address}/verify", func(r *http.Request, _ nothing) (api.OnionVerified, error) {
			return b.VerifyOnion(r.Context(), r.PathValue("address"))
		})),
		named(change(http.MethodPost, "/v1/onion/{address}/publish", func(r *http.Request, _ nothing) (api.OnionPublished, error) {
			return b.PublishOnion(r.Context(), door.Of(r.Context()).Actor(), r.PathValue("address"))
		})),
	}
}

func (hs *handlers) addOnion(r *http.Request, req api.OnionRequest) (api.OnionChanged, error) {
	return hs.backend.AddOnion(r.Context(), door.Of(r.Context()).Actor(), req)
}

func (hs *handlers) setOnionClients(r *http.Request, req api.OnionClientsRequest) (api.OnionChanged, error) {
	return hs.backend.SetOnionClients(r.Context(), door.Of(r.Context()).Actor(), r.PathValue("address"), req)
}

func (hs *handlers) grantOnion(r *http.Request, req api.OnionGrantRequest) (api.OnionGranted, error) {
	if _, err := cluster.ParseNodeID(string(req.Node)); err != nil {
		return api.OnionGranted{}, api.Errorf(api.CodeInvalidRequest, "node: %s", err)
	}
	return hs.backend.GrantOnion(r.Context(), door.Of(r.Context()).Actor(), r.PathValue("address"), req.Node)
}

func (hs *handlers) drainOnion(r *http.Request, req api.OnionDrainRequest) (api.OnionDrained, error) {
	if err := target(hs.answers.door, r, req.Node); err != nil {
		return api.OnionDrained{}, err
	}
	return hs.backend.DrainOnion(r.Context(), door.Of(r.Context()).Actor(), req)
}

func (hs *handlers) rotateOnion(r *http.Request, _ nothing) (api.OnionRotated, error) {
	return hs.backend.RotateOnion(r.Context(), door.Of(r.Context()).Actor())
}
