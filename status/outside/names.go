package outside

import (
	"context"
	"net/http"
	"strconv"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/status/openapi"
)

// NamesParams are what Users and Groups take.
var NamesParams = []openapi.Param{
	{Name: "limit", Type: uint64(0), About: "at most so many, 1,000 at most; next then says how to go on; without it all come"},
	{Name: "after", Type: "", About: "a name: those behind it; what next said"},
}

// Users answers GET /v1/users.
func Users(all func(context.Context) (api.Users, error)) func(*http.Request) (api.Users, error) {
	return func(r *http.Request) (api.Users, error) {
		out, err := all(r.Context())
		if err == nil {
			out.Users, out.Next, err = page(r, out.Users, func(u api.User) string { return u.Name })
		}
		return out, err
	}
}

// Groups answers GET /v1/groups.
func Groups(all func(context.Context) (api.Groups, error)) func(*http.Request) (api.Groups, error) {
	return func(r *http.Request) (api.Groups, error) {
		out, err := all(r.Context())
		if err == nil {
			out.Groups, out.Next, err = page(r, out.Groups, func(g api.Group) string { return g.Name })
		}
		return out, err
	}
}

// page is the part of list, which is sorted by name, that r wants, and what to go on
// after.
func page[T any](r *http.Request, list []T, name func(T) string) ([]T, string, error) {
	q := r.URL.Query()
	limit, after := len(list), q.Get("after")
	if q.Has("limit") {
		n, err := strconv.Atoi(q.Get("limit"))
		if err != nil || n < 1 || n > maxPage {
			return nil, "", api.Errorf(api.CodeInvalidRequest, "limit: %.32q is not a number from 1 to %d", q.Get("limit"), maxPage)
		}
		limit = n
	}
	if len(after) > cluster.MaxPrincipal {
		return nil, "", api.Errorf(api.CodeInvalidRequest, "after: a name has at most %d bytes", cluster.MaxPrincipal)
	}
	for len(list) > 0 && name(list[0]) <= after {
		list = list[1:]
	}
	if len(list) <= limit {
		return list, "", nil
	}
	return list[:limit], name(list[limit-1]), nil
}
