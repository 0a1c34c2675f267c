package daemon

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/daemon/stages"
	"github.com/skein-project/skein/gateway"
	"github.com/skein-project/skein/gateway/centrifugo"
	"github.com/skein-project/skein/gateway/guard"
	"github.com/skein-project/skein/gateway/relay"
	"github.com/skein-project/skein/gateway/rpc"
	"github.com/skein-project/skein/internal/sysclock"
	"github.com/skein-project/skein/realtime"
	"github.com/skein-project/skein/status"
	"github.com/skein-project/skein/web"
)

// startGateway opens this host for workers that no host runs, if it is a gateway.
func (d *daemon) startGateway(ctx context.Context, l *stages.Sequence, w *work, srv *status.Server) error {
	c, f, h := d.cfg.Gateway, d.cfg.Centrifugo, d.history
	if !c.Listen.IsValid() {
		return nil
	}
	page, err := web.Portal(f.WSURL)
	if err != nil {
		return err
	}
	at := rpc.InMemory(w.crew)
	var shared guard.Guard
	var ears centrifugo.Ears
	if w.redis != nil {
		at, shared, ears = w.redis, w.redis, w.redis
	}
	open := func(at netip.AddrPort) func(context.Context) (net.Listener, error) {
		return func(ctx context.Context) (l net.Listener, err error) { l, _, err = d.listen(ctx, at); return l, err }
	}
	g, err := gateway.New(gateway.Options{
		Page: page, Users: srv.ForUsers(), Watch: func(r realtime.Request) relay.Watch { return srv.Watch(r) }, Shared: shared, Secret: d.id.Derived("skein-claim/1"),
		Centrifugo: gateway.Centrifugo{API: f.APIURL, Clients: f.WSURL, KeyFile: f.APIKeyFile, SecretFile: f.SecretFile, Ears: ears, Open: open(c.InternalListen)},
		Cluster:    d.id.Cluster.String(), Self: d.id.Node, Dir: d.cfg.StateDir, Log: h, Owners: d.backend, Crew: at, Artefacts: w.Artefacts, Now: sysclock.Boot, Logger: d.log, Registerer: d.reg,
		HTTP: gateway.HTTP{
			Open: open(c.Listen), URL: c.URL, TLSCert: c.TLSCert, TLSKey: c.TLSKey, Proxies: c.Proxies, Origins: c.Origins, MaxClients: c.MaxClients,
		},
		Announce: func(ctx context.Context, b event.GatewayOpened) error {
			if old := h.peers.unaware(event.KindGatewayOpened); len(old) > 0 {
				return fmt.Errorf("the skein of %s is too old for it", old[0])
			}
			_, err := h.journal.Append(ctx, event.KindGatewayOpened, b)
			return err
		},
	})
	if err != nil {
		return err
	}
	l.Start(stages.Stage{Name: "gateway", Run: g.Run, Grace: 3 * time.Second})
	return l.Await(ctx, g.Up())
}
