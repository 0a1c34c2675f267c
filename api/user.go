package api

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Users answers GET /v1/users, by name.
type Users struct {
	Header
	Users []User `json:"users"`
	// Next is what to give as after for those behind the last one; empty: there are none.
	Next string `json:"next,omitempty"`
}

// User is who may ask for something.
type User struct {
	Name     string    `json:"name"`
	Role     string    `json:"role"` // viewer, submitter or operator
	Keys     []string  `json:"keys"` // public, Ed25519 in base64
	KeyIDs   []string  `json:"key_ids"`
	UIDs     []uint64  `json:"uids"` // who they are on the socket of a host
	Disabled bool      `json:"disabled"`
	Actor    string    `json:"actor"` // who said so
	At       time.Time `json:"at"`
}

// Whoami answers GET /v1/whoami: as whom the host takes who asks.
type Whoami struct {
	Header
	Name string `json:"name"` // "user:ann" or "uid:1000"; empty: anybody who may read here
	Role string `json:"role"` // viewer, submitter or operator
	// Proof is what says so: socket, the kernel's word for a uid; signature, of this request;
	// token, that was signed before; access_token, that an operator made; none, where everybody may read.
	Proof string  `json:"proof"`
	UID   *uint32 `json:"uid"`              // on the socket; null: not there
	KeyID string  `json:"key_id,omitempty"` // of the key that signed, or of the access token
	// Rights say whose things each right reaches: all, own or none.
	Rights Rights `json:"rights"`
	// MayChange says that any change is possible, also if only of what is the asker's own.
	MayChange bool       `json:"may_change"`
	EndsAt    *time.Time `json:"ends_at"` // when the token does; null: there is none
}

// Rights are those of the roles, in docs/access.md.
type Rights struct {
	Look    string `json:"look"`    // hosts, lease, workers, metrics
	Read    string `json:"read"`    // jobs
	Use     string `json:"use"`     // submit, stop and retry jobs
	Operate string `json:"operate"` // everything else
}

// UserRequest is the body of PUT /v1/users/{name}: all that is to hold of the user.
type UserRequest struct {
	Role     string   `json:"role"`
	Keys     []string `json:"keys,omitempty"` // base64 or PEM
	UIDs     []uint64 `json:"uids,omitempty"`
	Disabled bool     `json:"disabled,omitempty"`
}

// UserSet answers PUT /v1/users/{name}: a majority of the voters has it.
type UserSet struct {
	Header
	User User `json:"user"`
	// Endpoints are where this host takes requests of users.
	Endpoints []Endpoint `json:"endpoints"`
}

// Endpoint is where a host takes requests of users.
type Endpoint struct {
	URL string `json:"url"`
	Pin string `json:"pin"` // of its certificate's key: "sha256:" and hex; empty: of a certificate authority, or no TLS
}

// OwnerRequest is the body of PUT /v1/members/{node}/owner; empty: nobody in particular.
type OwnerRequest struct {
	Owner string `json:"owner"` // "user:ann"
}

// OwnerSet answers PUT /v1/members/{node}/owner.
type OwnerSet struct {
	Header
	Node  cluster.NodeID `json:"host"`
	Owner string         `json:"owner"`
}

// Whoami says as whom the host takes who asks.
func (c *Client) Whoami(ctx context.Context) (Whoami, error) {
	return get[Whoami](ctx, c, "/v1/whoami")
}

// Users lists the users.
func (c *Client) Users(ctx context.Context) (Users, error) { return get[Users](ctx, c, "/v1/users") }

// UsersPage is a page of Users.
func (c *Client) UsersPage(ctx context.Context, p Page) (Users, error) {
	return get[Users](ctx, c, p.of("/v1/users"))
}

// SetUser says who a user is.
func (c *Client) SetUser(ctx context.Context, name string, u UserRequest) (UserSet, error) {
	return send[UserSet](ctx, c, http.MethodPut, "/v1/users/"+url.PathEscape(name), u)
}

// SetOwner says whose a host is.
func (c *Client) SetOwner(ctx context.Context, node cluster.NodeID, owner string) (OwnerSet, error) {
	return send[OwnerSet](ctx, c, http.MethodPut, "/v1/members/"+url.PathEscape(string(node))+"/owner", OwnerRequest{Owner: owner})
}
