package api

import (
	"encoding/json"
	"time"

	"github.com/skein-project/skein/cluster"
)

// GatewayClient is the lowest number of a client that gateways of this version serve; each
// change that older clients would not survive raises it.
const GatewayClient = 1

// GatewayInfo answers GET /v1/info of a gateway.
type GatewayInfo struct {
	Cluster string         `json:"cluster"` // id, which signed requests name
	Node    cluster.NodeID `json:"node"`
	URLs    []string       `json:"urls"` // of all gateways, this one first
	// WSURL is where workers connect; empty: at /v1/realtime of the gateway.
	WSURL      string    `json:"ws_url,omitempty"`
	ServerTime time.Time `json:"server_time"`
	MinClient  int       `json:"min_client"`
}

// WorkerRegister is the body of POST /v1/workers/register, which the worker signs.
type WorkerRegister struct {
	PublicKey   string `json:"public_key"` // Ed25519: base64 or PEM
	Name        string `json:"name,omitempty"`
	Client      int    `json:"client"`                 // GatewayClient of its version
	AccessToken Secret `json:"access_token,omitempty"` // for work: the owner need not claim it
}

// WorkerRegistered answers it: 201, or 200 where the worker was known.
type WorkerRegistered struct {
	Worker cluster.NodeID `json:"worker"`
	State  string         `json:"state"` // enrolled, or unclaimed
	Owner  string         `json:"owner,omitempty"`
	// ClaimCode is what the owner gives to claim it, until ExpiresAt; null: nobody has to.
	ClaimCode   Secret     `json:"claim_code,omitempty"`
	Fingerprint string     `json:"fingerprint"` // which the owner compares
	ExpiresAt   *time.Time `json:"expires_at"`
}

// StateUnclaimed is of a worker that nobody has claimed.
const StateUnclaimed = "unclaimed"

// WorkerClaim is the body of POST /v1/workers/claim.
type WorkerClaim struct {
	ClaimCode Secret `json:"claim_code"`
}

// WorkerClaimed answers it.
type WorkerClaimed struct {
	Worker      cluster.NodeID `json:"worker"`
	Fingerprint string         `json:"fingerprint"`
	Name        string         `json:"name"`
}

// WorkerTokenRequest is the body of POST /v1/workers/token, which the worker signs.
type WorkerTokenRequest struct {
	Client int `json:"client"` // GatewayClient of its version
}

// WorkerToken answers it.
type WorkerToken struct {
	Token     Secret    `json:"token"` // for Authorization: Bearer
	ExpiresAt time.Time `json:"expires_at"`
	WSURL     string    `json:"ws_url,omitempty"` // as of GatewayInfo
}

// GatewayWorkers answers GET /v1/workers of a gateway.
type GatewayWorkers struct {
	Workers []GatewayWorker `json:"workers"`
}

// GatewayWorker is what the owner of an outside worker, and the worker, see of it.
type GatewayWorker struct {
	Worker  cluster.NodeID `json:"worker"`
	Name    string         `json:"name"`
	Owner   string         `json:"owner"`
	State   string         `json:"state"` // enrolled, disabled or revoked
	Trusted bool           `json:"trusted"`
	Zone    string         `json:"zone"`
	At      time.Time      `json:"at"` // when it was enrolled
}

// JWKS answers GET /.well-known/jwks.json (RFC 7517).
type JWKS struct {
	Keys []json.RawMessage `json:"keys"`
}
