package outside

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/status/door"
	"github.com/skein-project/skein/status/openapi"
)

// maxPage bounds a page of workers, and is how many there are where nobody says.
const maxPage = 1000

// Registry is where all of them stand. What changes it returns when a majority of the
// voters has it, and this host too unless it is slow; what it is given was checked by
// itself.
type Registry interface {
	Gateways(ctx context.Context) (api.Gateways, error)
	// OutsideWorkers lists workers by id, at most limit, from the first one behind after.
	OutsideWorkers(ctx context.Context, after cluster.NodeID, limit int) (api.OutsideWorkers, error)
	EnrolWorker(ctx context.Context, actor string, b event.WorkerEnrolled) (api.OutsideWorkerSet, error)
	RevokeWorker(ctx context.Context, actor string, id cluster.NodeID) (api.OutsideWorkerSet, error)
	AccessTokens(ctx context.Context) (api.AccessTokens, error)
	CreateAccess(ctx context.Context, actor, owner string, roles []string, ttl time.Duration) (api.AccessCreated, error)
	RevokeAccess(ctx context.Context, actor, id string) (api.AccessSet, error)
}

// PageParams are what Workers takes.
var PageParams = []openapi.Param{
	{Name: "limit", Type: uint64(0), About: "at most so many, 1,000 at most; next then says how to go on"},
	{Name: "after", Type: "", About: "what next said"},
}

// UsualAccess is what Create fills in where a body says nothing.
var UsualAccess = api.AccessRequest{TTLSeconds: api.UsualAccessTTL.Seconds()}

// Workers answers GET /v1/gateway/workers.
func Workers(reg Registry) func(*http.Request) (api.OutsideWorkers, error) {
	return func(r *http.Request) (api.OutsideWorkers, error) {
		limit, after := maxPage, cluster.NodeID(r.URL.Query().Get("after"))
		if text := r.URL.Query().Get("limit"); r.URL.Query().Has("limit") {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > maxPage {
				return api.OutsideWorkers{}, api.Errorf(api.CodeInvalidRequest, "limit: %.32q is not a number from 1 to %d", text, maxPage)
			}
			limit = n
		}
		if after != "" && !cluster.IsOutside(after) {
			return api.OutsideWorkers{}, api.Errorf(api.CodeInvalidRequest, "after: %.64q is no outside worker", string(after))
		}
		return reg.OutsideWorkers(r.Context(), after, limit)
	}
}

// Enrol answers POST /v1/gateway/workers. Known refuses an owner that there is not.
func Enrol(reg Registry, known func(owner string) error) func(*http.Request, api.OutsideWorkerRequest) (api.OutsideWorkerSet, error) {
	return func(r *http.Request, req api.OutsideWorkerRequest) (api.OutsideWorkerSet, error) {
		key, err := access.ParsePublicKey([]byte(req.Key))
		if err != nil {
			return api.OutsideWorkerSet{}, api.Errorf(api.CodeInvalidRequest, "key: %v", err)
		}
		b := event.WorkerEnrolled{Worker: cluster.OutsideID(key), Key: key, Owner: req.Owner, Name: req.Name, Trusted: req.Trusted, Zone: req.Zone}
		if b.Zone == cluster.OutsideZone {
			b.Zone = "" // the same in fewer words: it is not another enrolment
		}
		if err := b.Check(); err != nil {
			return api.OutsideWorkerSet{}, api.Errorf(api.CodeInvalidRequest, "%v", err)
		}
		if err := known(b.Owner); err != nil {
			return api.OutsideWorkerSet{}, err
		}
		return reg.EnrolWorker(r.Context(), door.Of(r.Context()).Actor(), b)
	}
}

// Revoke answers DELETE /v1/gateway/workers/{worker}.
func Revoke[Q any](reg Registry) func(*http.Request, Q) (api.OutsideWorkerSet, error) {
	return func(r *http.Request, _ Q) (api.OutsideWorkerSet, error) {
		id := cluster.NodeID(r.PathValue("worker"))
		if !cluster.IsOutside(id) {
			return api.OutsideWorkerSet{}, NoWorker(id)
		}
		return reg.RevokeWorker(r.Context(), door.Of(r.Context()).Actor(), id)
	}
}

// NoWorker is the answer about a worker that nobody enrolled.
func NoWorker(id cluster.NodeID) *api.Problem {
	return api.Errorf(api.CodeNotFound, "no outside worker %.64q", string(id)).WithHint("see `skein gateway worker ls`")
}

// CreateAccess answers POST /v1/gateway/tokens. Known refuses an owner that there is not.
func CreateAccess(reg Registry, known func(owner string) error) func(*http.Request, api.AccessRequest) (api.AccessCreated, error) {
	return func(r *http.Request, req api.AccessRequest) (api.AccessCreated, error) {
		least, most := api.MinAccessTTL.Seconds(), api.MaxAccessTTL.Seconds()
		if !(req.TTLSeconds >= least && req.TTLSeconds <= most) {
			return api.AccessCreated{}, api.Errorf(api.CodeInvalidRequest, "ttl_seconds is %g, want %g to %g", req.TTLSeconds, least, most)
		}
		roles := slices.Compact(slices.Sorted(slices.Values(req.Roles)))
		if len(roles) == 0 {
			return api.AccessCreated{}, api.Errorf(api.CodeInvalidRequest, "roles: a token is for something: name at least one of submit, watch, work")
		}
		b := event.AccessSet{ID: "aaaaaaaaaaaaaaaa", Hash: cluster.Hash{1}, Owner: req.Owner, Roles: roles, Expires: 1} // its own are made later
		if err := b.Check(); err != nil {
			return api.AccessCreated{}, api.Errorf(api.CodeInvalidRequest, "%v", err)
		}
		if err := known(b.Owner); err != nil {
			return api.AccessCreated{}, err
		}
		return reg.CreateAccess(r.Context(), door.Of(r.Context()).Actor(), b.Owner, roles, time.Duration(req.TTLSeconds*float64(time.Second)))
	}
}

// RevokeAccess answers DELETE /v1/gateway/tokens/{id}.
func RevokeAccess[Q any](reg Registry) func(*http.Request, Q) (api.AccessSet, error) {
	return func(r *http.Request, _ Q) (api.AccessSet, error) {
		id := r.PathValue("id")
		if event.CheckTokenID(id) != nil {
			return api.AccessSet{}, NoToken(id)
		}
		return reg.RevokeAccess(r.Context(), door.Of(r.Context()).Actor(), id)
	}
}

// NoToken is the answer about a token that there is not.
func NoToken(id string) *api.Problem {
	return api.Errorf(api.CodeNotFound, "no access token %.32q", id).WithHint("see `skein gateway token ls`")
}
