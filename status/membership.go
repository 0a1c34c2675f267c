package status

import (
	"net/http"
	"net/url"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/status/door"
)

// members answers GET /v1/members, with ?all also who is gone.
func (hs *handlers) members(_ http.ResponseWriter, r *http.Request) (any, error) {
	all, err := allMembers(r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	return hs.backend.Members(r.Context(), all)
}

func allMembers(query string) (bool, error) {
	q, err := url.ParseQuery(query)
	if err != nil {
		return false, api.Errorf(api.CodeInvalidRequest, "query: %s", err)
	}
	for name := range q {
		if name != "all" {
			return false, api.Errorf(api.CodeInvalidRequest, "unknown query parameter %.64q", name)
		}
	}
	switch v := q.Get("all"); v {
	case "true", "1", "":
		return q.Has("all"), nil
	case "false", "0":
		return false, nil
	default:
		return false, api.Errorf(api.CodeInvalidRequest, "all is %.16q, want true or false", v)
	}
}

// noBody reads the body of a request that has nothing to say.
func noBody(w http.ResponseWriter, r *http.Request) error { return decode(w, r, &struct{}{}) }

func (hs *handlers) leave(w http.ResponseWriter, r *http.Request) (any, error) {
	if err := noBody(w, r); err != nil {
		return nil, err
	}
	return hs.backend.Leave(r.Context(), door.Of(r.Context()).Actor())
}

func (hs *handlers) remove(w http.ResponseWriter, r *http.Request) (any, error) {
	var req api.RemoveRequest
	if err := decode(w, r, &req); err != nil {
		return nil, err
	}
	if err := req.Check(); err != nil {
		return nil, err
	}
	node, err := cluster.ParseNodeID(r.PathValue("node"))
	if err != nil {
		return nil, api.Errorf(api.CodeNotFound, "no member %.64q", r.PathValue("node")).WithHint("see `skein members`")
	}
	if node == hs.backend.Header().Node {
		return nil, api.Errorf(api.CodeConflict, "%s is this host", node).WithHint("to leave the cluster: `skein leave`")
	}
	return hs.backend.Remove(r.Context(), door.Of(r.Context()).Actor(), node, req.Reason)
}

func (hs *handlers) rotate(w http.ResponseWriter, r *http.Request) (any, error) {
	if err := noBody(w, r); err != nil {
		return nil, err
	}
	return hs.backend.RotateKey(r.Context(), door.Of(r.Context()).Actor())
}

// doctor runs one examination at a time: it writes to the disk.
func (hs *handlers) doctor(_ http.ResponseWriter, r *http.Request) (any, error) {
	select {
	case hs.examining <- struct{}{}:
		defer func() { <-hs.examining }()
		return hs.backend.Doctor(r.Context())
	default:
		return nil, api.Errorf(api.CodeOverloaded, "another examination is running")
	}
}
