package daemon

import (
	"context"
	"net"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/worker"
)

// fallback is how other hosts are reached when the mesh does not carry, nil
// without tor.
func (n *node) fallback(ctx context.Context) (*coord.Fallback, error) {
	if n.tor == nil {
		return nil, nil
	}
	f := &coord.Fallback{
		Bulk: []string{worker.BlobProto},
		Dial: func(ctx context.Context, to cluster.NodeID, onion string) (net.Conn, error) {
			return n.tor.dialPrivate(ctx, "peer "+string(to), onion, onionCoordPort, n.id.OnionClient())
		},
	}
	if !n.tor.tor.Own() {
		return f, nil
	}
	var err error
	f.Listener, err = n.tor.listen(ctx, onionCoordPort)
	return f, err
}

// ownOnion is this host's own onion service, zero if it has none or tor did not
// start yet, which makes its key.
func ownOnion(cfg config.Config) member.Onion {
	if !cfg.Tor.Enabled || cfg.Tor.Control != "" {
		return member.Onion{}
	}
	service := nodeService(cfg)
	text, err := service.Address()
	if err != nil {
		return member.Onion{}
	}
	o, err := member.ParseOnion(text)
	if err != nil {
		return member.Onion{}
	}
	return o
}
