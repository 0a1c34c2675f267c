package fakeoutside

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// Now is when everything happens.
var Now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Registry is one that tests change. The zero value is of nobody.
type Registry struct {
	mu      sync.Mutex
	workers map[cluster.NodeID]api.OutsideWorker
	tokens  map[string]api.AccessToken
}

// Gateways lists one.
func (r *Registry) Gateways(context.Context) (api.Gateways, error) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	return api.Gateways{Gateways: []api.Gateway{{
		Node: "n1", URL: "https://gw1.example.org:8443", Live: cluster.Alive, Opened: at, KeyEnds: at.Add(30 * 24 * time.Hour), Workers: new(3),
	}}}, nil
}

// OutsideWorkers lists the workers.
func (r *Registry) OutsideWorkers(_ context.Context, after cluster.NodeID, limit int) (api.OutsideWorkers, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := api.OutsideWorkers{Workers: []api.OutsideWorker{}}
	for _, id := range slices.Sorted(maps.Keys(r.workers)) {
		if id <= after {
			continue
		}
		if len(out.Workers) == limit {
			out.Next = out.Workers[limit-1].Worker
			break
		}
		out.Workers = append(out.Workers, r.workers[id])
	}
	return out, nil
}

// EnrolWorker refuses one that was revoked.
func (r *Registry) EnrolWorker(_ context.Context, actor string, b event.WorkerEnrolled) (api.OutsideWorkerSet, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.workers[b.Worker].State == api.StateRevoked {
		return api.OutsideWorkerSet{}, api.Errorf(api.CodeConflict, "%s was revoked: its key is never let in again", b.Worker)
	}
	if r.workers == nil {
		r.workers = map[cluster.NodeID]api.OutsideWorker{}
	}
	w := api.OutsideWorker{
		Worker: b.Worker, Key: base64.StdEncoding.EncodeToString(b.Key), Owner: b.Owner, Name: b.Name, Trusted: b.Trusted, Zone: b.Zone,
		State: api.StateEnrolled, Actor: actor + "@n1", At: Now,
	}
	if w.Zone == "" {
		w.Zone = cluster.OutsideZone
	}
	r.workers[b.Worker] = w
	return api.OutsideWorkerSet{Worker: w}, nil
}

// RevokeWorker ends a worker.
func (r *Registry) RevokeWorker(_ context.Context, actor string, id cluster.NodeID) (api.OutsideWorkerSet, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, ok := r.workers[id]
	if !ok {
		return api.OutsideWorkerSet{}, api.Errorf(api.CodeNotFound, "no outside worker %s", id)
	}
	w.State, w.RevokedBy, w.RevokedAt = api.StateRevoked, actor+"@n1", new(Now)
	r.workers[id] = w
	return api.OutsideWorkerSet{Worker: w}, nil
}

// AccessTokens lists the tokens.
func (r *Registry) AccessTokens(context.Context) (api.AccessTokens, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := api.AccessTokens{Tokens: []api.AccessToken{}}
	for _, id := range slices.Sorted(maps.Keys(r.tokens)) {
		out.Tokens = append(out.Tokens, r.tokens[id])
	}
	return out, nil
}

// CreateAccess makes a token of which anybody can guess the secret.
func (r *Registry) CreateAccess(_ context.Context, actor, owner string, roles []string, ttl time.Duration) (api.AccessCreated, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tokens == nil {
		r.tokens = map[string]api.AccessToken{}
	}
	id := fmt.Sprintf("aaaaaaaaaaaaaaa%c", 'a'+len(r.tokens))
	t := api.AccessToken{ID: id, Owner: owner, Roles: roles, State: api.StateValid, ExpiresAt: Now.Add(ttl), Actor: actor + "@n1", At: Now}
	r.tokens[id] = t
	return api.AccessCreated{AccessToken: t, Secret: api.Secret("skt_" + id + "_secret")}, nil
}

// RevokeAccess ends a token.
func (r *Registry) RevokeAccess(_ context.Context, _, id string) (api.AccessSet, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, ok := r.tokens[id]
	if !ok {
		return api.AccessSet{}, api.Errorf(api.CodeNotFound, "no access token %s", id)
	}
	t.State, t.Roles = api.StateRevoked, []string{}
	r.tokens[id] = t
	return api.AccessSet{Token: t}, nil
}
