package status

import (
	"bytes"
	"net/http"
	"slices"
	"strings"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/status/door"
)

// setUser says who a user is.
func (hs *handlers) setUser(r *http.Request, req api.UserRequest) (api.UserSet, error) {
	set := event.UserSet{
		Name: r.PathValue("name"), Role: req.Role, Disabled: req.Disabled, UIDs: slices.Compact(slices.Sorted(slices.Values(req.UIDs))),
	}
	for _, text := range req.Keys {
		k, err := access.ParsePublicKey([]byte(text))
		if err != nil {
			return api.UserSet{}, api.Errorf(api.CodeInvalidRequest, "keys: %v", err)
		}
		set.Keys = append(set.Keys, k)
	}
	slices.SortFunc(set.Keys, bytes.Compare)
	set.Keys = slices.CompactFunc(set.Keys, bytes.Equal)
	if err := set.Check(); err != nil {
		return api.UserSet{}, api.Errorf(api.CodeInvalidRequest, "%v", err)
	}
	out, err := hs.backend.SetUser(r.Context(), door.Of(r.Context()).Actor(), set)
	out.Endpoints = slices.Clone(hs.o.Endpoints)
	return out, err
}

// setOwner says whose a host is.
func (hs *handlers) setOwner(r *http.Request, req api.OwnerRequest) (api.OwnerSet, error) {
	set := event.HostOwnerSet{Node: cluster.NodeID(r.PathValue("node")), Owner: req.Owner}
	if err := set.Check(); err != nil {
		return api.OwnerSet{}, api.Errorf(api.CodeInvalidRequest, "%v", err)
	}
	if err := ownerIsThere(hs.backend.Directory(), set.Owner); err != nil {
		return api.OwnerSet{}, err
	}
	return hs.backend.SetOwner(r.Context(), door.Of(r.Context()).Actor(), set)
}

// ownerIsThere refuses a user that there is not, whose jobs would be the only ones on
// a host.
func ownerIsThere(users *access.Directory, owner string) error {
	if owner == "" {
		return nil
	}
	if err := cluster.CheckPrincipal(owner); err != nil {
		return api.Errorf(api.CodeInvalidRequest, "owner: %v", err)
	}
	if name, isUser := strings.CutPrefix(owner, cluster.UserPrincipal("")); isUser {
		if _, known := users.User(name); !known {
			return api.Errorf(api.CodeNotFound, "no user %q", name).WithHint("see `skein user ls`, or make it first: `skein user add`")
		}
	}
	return nil
}
