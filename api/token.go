package api

import (
	"time"

	"github.com/skein-project/skein/cluster"
)

// Tokens answers GET /v1/tokens, oldest first, without secrets.
type Tokens struct {
	Header
	Tokens []Token `json:"tokens"`
}

// Token is what may be seen of an invite.
type Token struct {
	ID        string           `json:"id"`
	CreatedAt time.Time        `json:"created_at"`
	ExpiresAt time.Time        `json:"expires_at"`
	Uses      int              `json:"uses"`
	Spent     []cluster.NodeID `json:"spent"` // who joined by it
	Revoked   bool             `json:"revoked"`
	Owner     string           `json:"owner,omitempty"` // whose these hosts are; empty: nobody's
	// Ephemeral says that these hosts leave when they stop, and are removed when they are dead
	// for an hour.
	Ephemeral bool `json:"ephemeral,omitempty"`
}

// TokenRequest is the body of POST /v1/tokens.
type TokenRequest struct {
	TTLSeconds float64 `json:"ttl_seconds"`
	Uses       int     `json:"uses"`
	// Via is which addresses the token names; empty: those of the host itself,
	// its own onion service last.
	Via TokenVia `json:"via,omitempty"`
	// Owner is whose the hosts are that join by it, "user:ann"; empty: nobody's.
	Owner string `json:"owner,omitempty"`
	// Ephemeral has the hosts that join by it leave when they stop, and be removed when they
	// are dead for an hour.
	Ephemeral bool `json:"ephemeral,omitempty"`
}

// TokenVia is how a new host reaches the cluster.
type TokenVia string

// The ways of a token that names onion addresses only.
const (
	ViaOnion  TokenVia = "onion"  // the sponsor's own
	ViaMaster TokenVia = "master" // those that the cluster serves, through any host
)

// Valid reports whether v is a way that there is.
func (v TokenVia) Valid() bool { return v == "" || v == ViaOnion || v == ViaMaster }

// TokenCreated answers POST /v1/tokens, the only body that holds the secret.
type TokenCreated struct {
	Header
	Token
	Secret Secret `json:"token"`
}
