package api

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/skein-project/skein/cluster"
)

// OutsideWorkers answers GET /v1/gateway/workers, by id.
type OutsideWorkers struct {
	Header
	Workers []OutsideWorker `json:"workers"`
	// Next is what to give as after for those behind the last one; empty: there are none.
	Next cluster.NodeID `json:"next,omitempty"`
}

// Gateways answers GET /v1/gateway, by host.
type Gateways struct {
	Header
	Gateways []Gateway `json:"gateways"`
}

// Gateway is a host at which outside workers attach, as the log has it.
type Gateway struct {
	Node    cluster.NodeID `json:"node"`
	URL     string         `json:"url"`
	Live    cluster.Health `json:"live"`
	Opened  time.Time      `json:"opened"`   // when it was started last
	KeyEnds time.Time      `json:"key_ends"` // unless it announces another
	// Workers are those that the holder reaches through it; null: no holder says.
	Workers *int `json:"workers"`
}

// The states of outside workers and of access tokens.
const (
	StateEnrolled = "enrolled"
	StateValid    = "valid"
	StateDisabled = "disabled" // its owner is a user who may do nothing
	StateExpired  = "expired"
	StateRevoked  = "revoked"
)

// OutsideWorker is a worker that no host runs, as it was enrolled.
type OutsideWorker struct {
	Worker  cluster.NodeID `json:"worker"` // its id, which follows from its key
	Key     string         `json:"key"`    // public, Ed25519 in base64
	Owner   string         `json:"owner"`  // "user:ann"
	Name    string         `json:"name"`   // what its owner calls it; may be empty
	Trusted bool           `json:"trusted"`
	Zone    string         `json:"zone"`
	State   string         `json:"state"` // enrolled, disabled or revoked
	Actor   string         `json:"actor"` // who enrolled it
	At      time.Time      `json:"at"`
	// RevokedBy is who shut it out, RevokedAt when; null: nobody did.
	RevokedBy string     `json:"revoked_by,omitempty"`
	RevokedAt *time.Time `json:"revoked_at"`
}

// OutsideWorkerRequest is the body of POST /v1/gateway/workers: all that is to hold of
// the worker.
type OutsideWorkerRequest struct {
	Key     string `json:"key"`   // public, Ed25519: base64 or PEM
	Owner   string `json:"owner"` // "user:ann"
	Name    string `json:"name,omitempty"`
	Trusted bool   `json:"trusted,omitempty"`
	Zone    string `json:"zone,omitempty"` // empty: "outside"
}

// OutsideWorkerSet answers what changes a worker: a majority of the voters has it.
type OutsideWorkerSet struct {
	Header
	Worker OutsideWorker `json:"worker"`
}

// AccessTokens answers GET /v1/gateway/tokens, by id, without secrets.
type AccessTokens struct {
	Header
	Tokens []AccessToken `json:"tokens"`
}

// AccessToken is what may be seen of an access token.
type AccessToken struct {
	ID        string    `json:"id"`
	Owner     string    `json:"owner"` // "user:ann"
	Roles     []string  `json:"roles"` // of submit, watch and work; none of one that is revoked
	State     string    `json:"state"` // valid, disabled, expired or revoked
	ExpiresAt time.Time `json:"expires_at"`
	Actor     string    `json:"actor"` // who made it, or revoked it
	At        time.Time `json:"at"`
}

// Limits of how long an access token is good for.
const (
	MinAccessTTL = time.Minute
	MaxAccessTTL = 366 * 24 * time.Hour
	// UsualAccessTTL is where nobody says.
	UsualAccessTTL = 30 * 24 * time.Hour
)

// AccessRequest is the body of POST /v1/gateway/tokens.
type AccessRequest struct {
	Owner      string   `json:"owner"` // "user:ann"
	Roles      []string `json:"roles"` // of submit, watch and work
	TTLSeconds float64  `json:"ttl_seconds"`
}

// AccessCreated answers POST /v1/gateway/tokens, the only body that holds the secret.
type AccessCreated struct {
	Header
	AccessToken
	Secret Secret `json:"token"`
}

// AccessSet answers DELETE /v1/gateway/tokens/{id}.
type AccessSet struct {
	Header
	Token AccessToken `json:"access_token"`
}

// Gateways lists the hosts at which outside workers attach.
func (c *Client) Gateways(ctx context.Context) (Gateways, error) {
	return get[Gateways](ctx, c, "/v1/gateway")
}

// OutsideWorkersPage lists the outside workers, a page of them.
func (c *Client) OutsideWorkersPage(ctx context.Context, p Page) (OutsideWorkers, error) {
	return get[OutsideWorkers](ctx, c, p.of("/v1/gateway/workers"))
}

// EnrolWorker says whose an outside worker is.
func (c *Client) EnrolWorker(ctx context.Context, req OutsideWorkerRequest) (OutsideWorkerSet, error) {
	return send[OutsideWorkerSet](ctx, c, http.MethodPost, "/v1/gateway/workers", req)
}

// RevokeWorker shuts an outside worker out for ever.
func (c *Client) RevokeWorker(ctx context.Context, id cluster.NodeID) (OutsideWorkerSet, error) {
	return send[OutsideWorkerSet](ctx, c, http.MethodDelete, "/v1/gateway/workers/"+url.PathEscape(string(id)), nil)
}

// AccessTokens lists the access tokens.
func (c *Client) AccessTokens(ctx context.Context) (AccessTokens, error) {
	return get[AccessTokens](ctx, c, "/v1/gateway/tokens")
}

// CreateAccess makes an access token.
func (c *Client) CreateAccess(ctx context.Context, req AccessRequest) (AccessCreated, error) {
	return send[AccessCreated](ctx, c, http.MethodPost, "/v1/gateway/tokens", req)
}

// RevokeAccess ends an access token.
func (c *Client) RevokeAccess(ctx context.Context, id string) (AccessSet, error) {
	return send[AccessSet](ctx, c, http.MethodDelete, "/v1/gateway/tokens/"+url.PathEscape(id), nil)
}
