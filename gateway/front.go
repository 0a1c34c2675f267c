package gateway

import (
	"net/http"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/gateway/auth"
	"github.com/skein-project/skein/gateway/centrifugo"
	"github.com/skein-project/skein/gateway/channel"
	"github.com/skein-project/skein/gateway/push"
)

// front is who keeps the connections of workers, and of users who listen. What workers ask over these comes to overConn,
// whoever that is.
type front interface {
	// Start is called before the first Push; Stop must follow.
	Start() error
	Stop()
	// Push tells a worker something, if it listens.
	Push(worker cluster.NodeID, p api.WorkPush)
	// Publish tells all who listen to a channel something.
	Publish(name string, data []byte)
	// Heard are the channels but those of workers to which somebody listens, and of which this
	// gateway is to tell.
	Heard() ([]channel.Ear, error)
	// Clients lists those that are connected, or may be.
	Clients() []auth.Client
	// End ends the connections of a client; of conn, if that is not empty, this one alone.
	End(client auth.Client, conn string, why api.Disconnect)
	// Connections is how many this process has.
	Connections() int
}

// openFront makes the front of a gateway, and what takes its connections here; nil: nothing
// does.
func openFront(g *Gateway) (http.Handler, error) {
	c, in := g.o.Centrifugo, admissionOf(g)
	if c.API == "" {
		n, err := push.New(push.Options{
			Who: in.connects, Stays: in.stays, Listen: in.listens, Call: g.overConn, Gone: g.rpc.Gone, Ended: g.metrics.disconnected, Origin: g.o.HTTP.allows, Now: g.o.Now, Logger: g.o.Logger,
		})
		g.push = n
		return n, err
	}
	n, err := centrifugo.New(centrifugo.Options{
		API: c.API, KeyFile: c.KeyFile, SecretFile: c.SecretFile, Open: c.Open, Keys: g.answer("GET /.well-known/jwks.json", g.jwks),
		Stays: in.stays, Listen: in.listens, Ears: c.Ears, Call: g.overConn, Life: auth.TokenLife,
		Now: g.o.Now, Wall: g.wall, Logger: g.o.Logger, Registerer: g.o.Registerer,
	})
	g.push = n
	return nil, err
}
