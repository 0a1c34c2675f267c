package gateway

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/gateway/centrifugo"
	"github.com/skein-project/skein/gateway/desk"
	"github.com/skein-project/skein/gateway/guard"
	"github.com/skein-project/skein/gateway/registry"
	"github.com/skein-project/skein/gateway/relay"
	"github.com/skein-project/skein/realtime"
)

// Options configures a Gateway. All must be set but what says otherwise.
type Options struct {
	Cluster string // id, which signed requests name
	Self    cluster.NodeID
	Dir     string // where its key lies
	HTTP    HTTP
	Log     registry.Log
	Owners  Owners
	// Crew is where workers attach, Artefacts what their chunks need.
	Crew      desk.Crew
	Artefacts Artefacts
	// Shared is what this gateway remembers together with others, which then may have the same
	// HTTP.URL, of those who ask; nil: it remembers alone.
	Shared guard.Guard
	// Secret is known to the gateways of Shared alone: under a hash with it claim codes are
	// kept; nil: a random one.
	Secret []byte
	// Centrifugo keeps the connections of clients; without an API this process does.
	Centrifugo Centrifugo
	// Watch begins a stream of how the cluster and its jobs change, for those who listen; nil:
	// they are told nothing.
	Watch func(realtime.Request) relay.Watch
	// Users serves users, who prove each request, their jobs and artefacts: it finds who
	// asks as a door.Peer; nil: they are not served here.
	Users http.Handler
	// Page serves a page for browsers at "/", and its files beside it; nil: there is none.
	Page http.Handler
	// Announce has an event logged, when this host may write; it fails while a member that
	// lives does not know its kind.
	Announce func(ctx context.Context, b event.GatewayOpened) error
	// Now is a clock that goes on in suspend; Wall the time of the day, default time.Now.
	Now        func() time.Duration
	Wall       func() time.Time
	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

// HTTP is how clients reach the gateway.
type HTTP struct {
	// Open opens its address.
	Open func(ctx context.Context) (net.Listener, error)
	// URL is where clients reach it: scheme, host and maybe port.
	URL string
	// TLSCert and TLSKey are PEM files; empty: plain HTTP.
	TLSCert, TLSKey string
	// Proxies are whose X-Forwarded-For counts; may be nil.
	Proxies []netip.Prefix
	// Origins are those of web pages that may ask through a browser; may be nil.
	Origins    []string
	MaxClients int
}

// Centrifugo is where a Centrifugo is asked, and asks.
type Centrifugo struct {
	API, Clients        string // URLs: of its API, and where workers connect
	KeyFile, SecretFile string
	// Ears is what gateways know together of who listens.
	Ears centrifugo.Ears
	// Open opens the address where it asks.
	Open func(ctx context.Context) (net.Listener, error)
}

// host is what signed requests name.
func (h HTTP) host() string {
	u, err := url.Parse(h.URL)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// allows says whether the web page that asks may connect: one of this gateway, or one of
// Origins.
func (h HTTP) allows(r *http.Request) bool {
	o := r.Header.Get("Origin")
	return o == "" || o == h.URL || slices.Contains(h.Origins, o)
}

// Artefacts are modules and configs by their hash.
type Artefacts interface {
	// Fetch makes one available here; from, may be nil, are hosts that have it.
	Fetch(ctx context.Context, h cluster.Hash, from []cluster.NodeID) error
	Open(h cluster.Hash) (*os.File, int64, error)
}

// Owners carries out what owners of outside workers want, and shows what they have.
type Owners interface {
	// OwnWorker makes a worker one of the owner of an access token, or without a key shuts
	// out one that is.
	OwnWorker(ctx context.Context, token api.Secret, id cluster.NodeID, key []byte, name string) (api.OutsideWorker, error)
	// OwnWorkers lists the workers of an owner, at most limit.
	OwnWorkers(owner string, limit int) []api.OutsideWorker
}
