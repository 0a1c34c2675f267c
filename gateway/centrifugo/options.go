package centrifugo

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/gateway/auth"
	"github.com/skein-project/skein/gateway/channel"
)

// Ears is what gateways that share a Centrifugo know together of who listens to which
// channels but those of workers. Its methods may be called from any goroutine.
type Ears interface {
	// Hear notes that somebody listens for channel.Life and a little more; anew: it begins to.
	// false: too many channels are listened to.
	Hear(name string, anew bool) (bool, error)
	// Heard are the channels to which somebody listens, if this gateway is the one that tells
	// them, which one at a time is.
	Heard() ([]channel.Ear, error)
}

// Options configures a Node. All must be set but what says otherwise.
type Options struct {
	API        string // its URL, as http://127.0.0.1:8001/api
	KeyFile    string // with the key of the API
	SecretFile string // with what Centrifugo's proxies show here; of two lines either
	// Open opens the address of the proxies.
	Open func(ctx context.Context) (net.Listener, error)
	// Keys serves the public keys of tokens; who asks for it shows no secret.
	Keys http.Handler
	// Stays is why a client may not be connected, as *api.Disconnect, or not yet, as
	// *api.Problem; nil: it may.
	Stays func(client auth.Client) error
	// Listen is why a client may not listen to a channel; nil: it may.
	Listen func(client auth.Client, name string) *channel.Error
	// Ears is what gateways together know of who listens.
	Ears Ears
	// Call answers what a worker asks. Those of one connection come one after the other.
	// conn is always empty: nobody tells when a connection ends.
	Call func(worker cluster.NodeID, conn, method string, request []byte) (any, *api.Problem)
	// Life is how long a connection is good for until it is asked for again.
	Life       time.Duration
	Now        func() time.Duration // never goes back
	Wall       func() time.Time
	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil: nobody reads metrics
}
