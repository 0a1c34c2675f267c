package gateway

import (
	"net/http"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/gateway/auth"
	"github.com/skein-project/skein/gateway/centrifugo"
	"github.com/skein-project/skein/gateway/push"
)

// front is who keeps the connections of workers. What they ask over these comes to overConn,
// whoever that is.
type front interface {
	// Start is called before the first Push; Stop must follow.
	Start() error
	Stop()
	// Push tells a worker something, if it listens.
	Push(worker cluster.NodeID, p api.WorkPush)
	// Workers lists those that are connected, or may be.
	Workers() []cluster.NodeID
	// End ends the connections of a worker; of conn, if that is not empty, this one alone.
	End(worker cluster.NodeID, conn string, why api.Disconnect)
	// Connections is how many this process has.
	Connections() int
}

// openFront makes the front of a gateway, and what takes its connections here; nil: nothing
// does.
func openFront(g *Gateway) (http.Handler, error) {
	c, in := g.o.Centrifugo, admissionOf(g)
	if c.API == "" {
		n, err := push.New(push.Options{
			Who: in.connects, Stays: in.stays, Call: g.overConn, Gone: g.rpc.Gone, Ended: g.metrics.disconnected, Origin: g.o.HTTP.allows, Now: g.o.Now, Logger: g.o.Logger,
		})
		g.push = n
		return n, err
	}
	n, err := centrifugo.New(centrifugo.Options{
		API: c.API, KeyFile: c.KeyFile, SecretFile: c.SecretFile, Open: c.Open, Keys: g.answer("GET /.well-known/jwks.json", g.jwks),
		Stays: in.stays, Call: g.overConn, Life: auth.TokenLife,
		Now: g.o.Now, Wall: g.wall, Logger: g.o.Logger, Registerer: g.o.Registerer,
	})
	g.push = n
	return nil, err
}
