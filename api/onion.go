package api

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Onion answers GET /v1/onion: the onion addresses of the cluster and this
// host's part in them.
type Onion struct {
	Header
	Tor       OnionTor       `json:"tor"`
	Addresses []OnionAddress `json:"addresses"`
	Hosts     []OnionHost    `json:"hosts"`
	// Check says what makes a target of this host healthy; empty without one.
	Check string `json:"check"`
	// OperatorAddress is the onion address at which the Operators of this host's
	// configuration find its page; empty: there are none, or tor has not made its key.
	OperatorAddress string   `json:"operator_address,omitempty"`
	Operators       []string `json:"operators,omitempty"`
	// Problems are what an operator should mend, such as keys that cannot be
	// read.
	Problems []string `json:"problems"`
}

// OnionTor is this host's tor.
type OnionTor struct {
	Enabled   bool   `json:"enabled"`
	State     string `json:"state"` // down, bootstrap, ready or faulty
	Version   string `json:"version"`
	Bootstrap int    `json:"bootstrap_percent"`
	Restarts  int    `json:"restarts"`
	Reason    string `json:"reason"` // why it is not ready
	// Node is the address by which other members reach this host.
	Node string `json:"node"`
	// WrongMaster counts introductions for an address that this host does not
	// know.
	WrongMaster uint64 `json:"wrong_master"`
}

// OnionAddress is one address that the cluster serves.
type OnionAddress struct {
	Address string    `json:"address"`
	Version uint64    `json:"version"` // of its settings
	SetAt   time.Time `json:"set_at"`
	Actor   string    `json:"actor"`
	// Clients may find it, by name; none: everybody.
	Clients []string `json:"clients"`
	// Keepers are living hosts with its key, Key says that this one is one.
	Keepers []cluster.NodeID `json:"keepers"`
	Key     bool             `json:"key"`
	// Publisher publishes it, as far as this host knows; empty: not known. Before
	// its first descriptor it waits some seconds for the points of those Awaited.
	Publisher cluster.NodeID   `json:"publisher"`
	Awaited   []cluster.NodeID `json:"awaited,omitempty"`
	// What follows is about this host's publisher, if it has the key.
	Publishing  bool                   `json:"publishing"`
	Term        cluster.Term           `json:"term"`
	Descriptors uint64                 `json:"descriptors"`  // made since the start
	PublishedAt *time.Time             `json:"published_at"` // null: not yet
	Foreign     *time.Time             `json:"foreign_at"`   // when another's descriptor was last found; null: never
	Points      map[cluster.NodeID]int `json:"points"`       // in the newest one
	Size        int                    `json:"size"`         // of the newest one, bytes
	Fenced      bool                   `json:"fenced"`       // a later publisher is at work
	Solo        bool                   `json:"solo"`         // tor publishes by itself
}

// OnionHost is a host's share of the addresses, as this host sees it.
type OnionHost struct {
	Node    cluster.NodeID `json:"node"`
	Health  cluster.Health `json:"health"`
	Stopped bool           `json:"stopped,omitempty"`  // it said that it stops
	Address string         `json:"address"`            // of its own; empty: it serves nothing
	Weight  uint32         `json:"weight"`             // 0: drained
	Points  int            `json:"points"`             // standing: they have a circuit
	Asked   int            `json:"asked"`              // points that its tor is to keep; 0: not known, as of other hosts
	Healthy bool           `json:"healthy"`            // a target of it is healthy
	Serving bool           `json:"serving"`            // its points belong in the descriptors
	Keys    int            `json:"keys"`               // of addresses
	Reason  string         `json:"reason"`             // why its last share was refused
	LeftOut string         `json:"left_out,omitempty"` // why its points are left out of a descriptor
	// Backends are its own as it reported them: those of another host only
	// while one of them fails, and shortly after.
	Backends []OnionBackend `json:"backends,omitempty"`
}

// OnionBackend is a backend of a host.
type OnionBackend struct {
	Name    string `json:"name"`
	Healthy bool   `json:"healthy"`
}

// OnionRequest asks for an address: a new one, or that of a key.
type OnionRequest struct {
	// KeyFile is the content of tor's hs_ed25519_secret_key; none: a new key.
	KeyFile []byte `json:"key_file,omitempty"`
}

// OnionChanged answers changes of an address.
type OnionChanged struct {
	Header
	Address string `json:"address"`
	Version uint64 `json:"version"`
}

// OnionClientsRequest says who may find an address: public keys in the form of
// tor's .auth files, by name; none: everybody.
type OnionClientsRequest struct {
	Clients map[string]string `json:"clients"`
}

// OnionGrantRequest gives a host the key of an address.
type OnionGrantRequest struct {
	Node cluster.NodeID `json:"node"`
}

// OnionGranted answers it.
type OnionGranted struct {
	Header
	Address string         `json:"address"`
	Node    cluster.NodeID `json:"node"`
}

// OnionKey answers an export.
type OnionKey struct {
	Header
	Address string `json:"address"`
	KeyFile []byte `json:"key_file"`
}

// OnionDrainRequest takes a host out of the descriptors, or undoes that.
type OnionDrainRequest struct {
	Node cluster.NodeID `json:"node,omitempty"` // empty: this host
	Undo bool           `json:"undo,omitempty"`
}

// OnionDrained answers it.
type OnionDrained struct {
	Header
	Node    cluster.NodeID `json:"node"`
	Drained bool           `json:"drained"`
}

// OnionPublished answers one who has an address published anew.
type OnionPublished struct {
	Header
	Address string         `json:"address"`
	Node    cluster.NodeID `json:"node"` // that publishes it
	Term    cluster.Term   `json:"term"` // under which the new descriptors are made
}

// OnionRotated answers a change of this host's own onion key.
type OnionRotated struct {
	Header
	From string `json:"from"`
}

// OnionVerified answers a verification: what each directory that clients ask
// has.
type OnionVerified struct {
	Header
	Address string         `json:"address"`
	Dirs    []OnionDirView `json:"dirs"`
	// Found is how many have the newest descriptor that any of them has.
	Found int `json:"found"`
}

// OnionDirView is one directory.
type OnionDirView struct {
	Dir      string `json:"dir"`      // fingerprint
	Revision string `json:"revision"` // decimal; empty: none
	Points   int    `json:"points"`   // -1: not readable without a client's key
	Reason   string `json:"reason"`   // why nothing was found
}

// Onion shows the onion addresses.
func (c *Client) Onion(ctx context.Context) (Onion, error) { return get[Onion](ctx, c, "/v1/onion") }

func onionPath(address, rest string) string { return "/v1/onion/" + url.PathEscape(address) + rest }

// AddOnion has the cluster serve an address: a new one, or that of a key.
func (c *Client) AddOnion(ctx context.Context, req OnionRequest) (OnionChanged, error) {
	return send[OnionChanged](ctx, c, http.MethodPost, "/v1/onion", req)
}

// RemoveOnion has the cluster stop serving an address. Its key stays.
func (c *Client) RemoveOnion(ctx context.Context, address string) (OnionChanged, error) {
	return send[OnionChanged](ctx, c, http.MethodDelete, onionPath(address, ""), nil)
}

// SetOnionClients says who may find an address.
func (c *Client) SetOnionClients(ctx context.Context, address string, req OnionClientsRequest) (OnionChanged, error) {
	return send[OnionChanged](ctx, c, http.MethodPut, onionPath(address, "/clients"), req)
}

// GrantOnion gives a host the key of an address.
func (c *Client) GrantOnion(ctx context.Context, address string, node cluster.NodeID) (OnionGranted, error) {
	return send[OnionGranted](ctx, c, http.MethodPost, onionPath(address, "/grant"), OnionGrantRequest{Node: node})
}

// ExportOnion returns the key of an address.
func (c *Client) ExportOnion(ctx context.Context, address string) (OnionKey, error) {
	return send[OnionKey](ctx, c, http.MethodPost, onionPath(address, "/export"), nil)
}

// VerifyOnion asks every directory for an address's descriptor.
func (c *Client) VerifyOnion(ctx context.Context, address string) (OnionVerified, error) {
	return send[OnionVerified](ctx, c, http.MethodPost, onionPath(address, "/verify"), nil)
}

// PublishOnion has the host that publishes an address make and post new descriptors.
func (c *Client) PublishOnion(ctx context.Context, address string) (OnionPublished, error) {
	return send[OnionPublished](ctx, c, http.MethodPost, onionPath(address, "/publish"), nil)
}

// DrainOnion takes a host out of the descriptors, or undoes that.
func (c *Client) DrainOnion(ctx context.Context, req OnionDrainRequest) (OnionDrained, error) {
	return send[OnionDrained](ctx, c, http.MethodPost, "/v1/onion/drain", req)
}

// RotateOnion gives the daemon's host another onion key of its own.
func (c *Client) RotateOnion(ctx context.Context) (OnionRotated, error) {
	return send[OnionRotated](ctx, c, http.MethodPost, "/v1/onion/rotate", nil)
}
