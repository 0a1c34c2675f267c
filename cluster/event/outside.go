package event

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/skein-project/skein/cluster"
)

// Limits of the registry of outside workers.
const (
	MaxWorkerName = 64  // bytes of what its owner calls an outside worker
	MaxGatewayURL = 256 // bytes
	MaxKID        = 64  // bytes of the name of a gateway's key
	// TokenIDLen is the length of the id of an access token.
	TokenIDLen = 16
)

// Stores of a gateway: its own memory, or what several share.
const (
	StoreMemory = "memory"
	StoreRedis  = "redis"
)

// accessRoles is what AccessRoles lists.
var accessRoles = []string{"submit", "watch", "work"}

// AccessRoles lists what an access token may be for, sorted.
func AccessRoles() []string { return slices.Clone(accessRoles) }

// WorkerEnrolled says whose an outside worker is, which no host runs, and what it is
// trusted with; the latest event decides.
type WorkerEnrolled struct {
	Worker cluster.NodeID `json:"worker"`         // its id, which follows from its key
	Key    []byte         `json:"key"`            // its Ed25519 key
	Owner  string         `json:"owner"`          // whose it is, "user:ann"
	Name   string         `json:"name,omitempty"` // what its owner calls it
	// Trusted workers are given what a host is given, and believed as one. The others
	// are strangers.
	Trusted bool   `json:"trusted,omitempty"`
	Zone    string `json:"zone,omitempty"` // where it is; none: "outside"
	Actor   string `json:"actor"`          // who asked, "uid:0@n1"
}

// Kind implements Register.
func (WorkerEnrolled) Kind() Kind { return KindWorkerEnrolled }

// Subject implements Register.
func (b WorkerEnrolled) Subject() string { return fmt.Sprintf("worker %.64q", string(b.Worker)) }

// Check reports the first reason why an outside worker cannot be as b says.
func (b WorkerEnrolled) Check() error {
	if len(b.Key) != ed25519.PublicKeySize {
		return fmt.Errorf("key of %d bytes, want %d", len(b.Key), ed25519.PublicKeySize)
	}
	if want := cluster.OutsideID(b.Key); b.Worker != want {
		return fmt.Errorf("worker %.64q: the id of this key is %s", string(b.Worker), want)
	}
	if err := cluster.CheckGrantee(b.Owner); err != nil {
		return fmt.Errorf("owner: %w", err)
	}
	if name, isUser := strings.CutPrefix(b.Owner, cluster.UserPrincipal("")); isUser {
		if err := cluster.CheckUserName(name); err != nil {
			return fmt.Errorf("owner: %w", err)
		}
	} else if !b.Trusted {
		return fmt.Errorf("owner %.64q: a worker that is not trusted is a user's, as user:ann", b.Owner)
	}
	if b.Name != "" && !cluster.Printable(b.Name, MaxWorkerName) {
		return fmt.Errorf("name %.64q: want 1-%d printable ASCII characters without blanks", b.Name, MaxWorkerName)
	}
	if b.Zone != "" && !cluster.Printable(b.Zone, cluster.MaxZoneName) {
		return fmt.Errorf("zone %.64q: want 1-%d printable ASCII characters without blanks", b.Zone, cluster.MaxZoneName)
	}
	return nil
}

// WorkerRevoked ends an outside worker for ever: its key is not let in again, whoever
// enrols it, before or afterwards.
type WorkerRevoked struct {
	Worker cluster.NodeID `json:"worker"` // its id
	Actor  string         `json:"actor"`  // who asked, "uid:0@n1"
}

// Kind implements Register.
func (WorkerRevoked) Kind() Kind { return KindWorkerRevoked }

// Subject implements Register.
func (b WorkerRevoked) Subject() string { return fmt.Sprintf("end of worker %.64q", string(b.Worker)) }

// Check reports why no outside worker has such an id.
func (b WorkerRevoked) Check() error {
	if !cluster.IsOutside(b.Worker) {
		return fmt.Errorf("%.64q is no outside worker: want w- and 26 characters a-z, 2-7", string(b.Worker))
	}
	return nil
}

// AccessSet says what an access token is good for; the latest event decides. The log has
// only the token's hash.
type AccessSet struct {
	ID      string       `json:"id"`              // of the token: 16 characters a-z, 2-7
	Hash    cluster.Hash `json:"hash"`            // SHA-256 of "skein-access/1", the id and the token's secret
	Owner   string       `json:"owner"`           // whose it is, "user:ann"
	Roles   []string     `json:"roles,omitempty"` // what it is for: submit, watch, work; sorted; none: it is revoked
	Expires int64        `json:"expires"`         // when it ends, in seconds since the Unix epoch
	Actor   string       `json:"actor"`           // who asked, "uid:0@n1"
}

// Kind implements Register.
func (AccessSet) Kind() Kind { return KindAccessSet }

// Subject implements Register.
func (b AccessSet) Subject() string { return fmt.Sprintf("access token %.32q", b.ID) }

// Check reports the first reason why a token cannot be as b says.
func (b AccessSet) Check() error {
	if err := CheckTokenID(b.ID); err != nil {
		return err
	}
	name, isUser := strings.CutPrefix(b.Owner, cluster.UserPrincipal(""))
	if !isUser {
		return fmt.Errorf("owner %.64q: a token is a user's, as user:ann", b.Owner)
	}
	if err := cluster.CheckUserName(name); err != nil {
		return fmt.Errorf("owner: %w", err)
	}
	if b.Hash.IsZero() {
		return errors.New("no hash")
	}
	if b.Expires <= 0 {
		return fmt.Errorf("expires is %d: want seconds since the Unix epoch", b.Expires)
	}
	return cluster.CheckSet("roles", b.Roles, len(accessRoles), func(r string) bool { return slices.Contains(accessRoles, r) })
}

// CheckTokenID checks the id of an access token.
func CheckTokenID(id string) error {
	if len(id) != TokenIDLen || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		return fmt.Errorf("%.32q is no id of an access token: want %d characters a-z, 2-7", id, TokenIDLen)
	}
	return nil
}

// GatewayOpened says that a host serves as a gateway, and by which key it signs the tokens
// of outside workers.
type GatewayOpened struct {
	URL   string `json:"url"`   // where outside workers reach it
	KID   string `json:"kid"`   // the name of its key
	Key   []byte `json:"key"`   // the Ed25519 key
	Store string `json:"store"` // where its sessions are: memory or redis
	Until int64  `json:"until"` // when the key ends, in seconds since the Unix epoch
}

// Check reports the first reason why a gateway cannot be as b says.
func (b GatewayOpened) Check() error {
	_, https := strings.CutPrefix(b.URL, "https://")
	_, http := strings.CutPrefix(b.URL, "http://")
	switch {
	case !cluster.Printable(b.URL, MaxGatewayURL) || !https && !http:
		return fmt.Errorf("url %.64q: want http:// or https:// and at most %d printable ASCII characters", b.URL, MaxGatewayURL)
	case !cluster.Printable(b.KID, MaxKID):
		return fmt.Errorf("kid %.64q: want 1-%d printable ASCII characters without blanks", b.KID, MaxKID)
	case len(b.Key) != ed25519.PublicKeySize:
		return fmt.Errorf("key of %d bytes, want %d", len(b.Key), ed25519.PublicKeySize)
	case b.Store != StoreMemory && b.Store != StoreRedis:
		return fmt.Errorf("%.32q is no store: want memory or redis", b.Store)
	case b.Until <= 0:
		return fmt.Errorf("until is %d: want seconds since the Unix epoch", b.Until)
	}
	return nil
}
