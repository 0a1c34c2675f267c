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
}

// TokenRequest is the body of POST /v1/tokens.
type TokenRequest struct {
	TTLSeconds float64 `json:"ttl_seconds"`
	Uses       int     `json:"uses"`
}

// TokenCreated answers POST /v1/tokens, the only body that holds the secret.
type TokenCreated struct {
	Header
	Token
	Secret Secret `json:"token"`
}
