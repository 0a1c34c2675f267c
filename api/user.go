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

// Users lists the users.
func (c *Client) Users(ctx context.Context) (Users, error) { return get[Users](ctx, c, "/v1/users") }

// SetUser says who a user is.
func (c *Client) SetUser(ctx context.Context, name string, u UserRequest) (UserSet, error) {
	return send[UserSet](ctx, c, http.MethodPut, "/v1/users/"+url.PathEscape(name), u)
}

// SetOwner says whose a host is.
func (c *Client) SetOwner(ctx context.Context, node cluster.NodeID, owner string) (OwnerSet, error) {
	return send[OwnerSet](ctx, c, http.MethodPut, "/v1/members/"+url.PathEscape(string(node))+"/owner", OwnerRequest{Owner: owner})
}
