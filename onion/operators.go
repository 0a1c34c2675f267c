package onion

import (
	"context"
	"crypto/ecdh"
	"maps"
	"net"
	"path/filepath"
	"slices"

	"github.com/skein-project/skein/tor"
)

// operatorPort is the one of the onion service at which operators find this host's page.
const operatorPort = 80

// operators are who finds this host's page, at an onion service of its own.
type operators struct {
	keys   map[string]*ecdh.PublicKey // by name; none: there is no service
	dir    string                     // of the service's key
	socket string                     // where tor passes operators on
}

func newOperators(o Options) operators {
	return operators{keys: o.Operators, dir: filepath.Join(o.Dir, "operators"), socket: o.Tor.Socket(operatorPort) + ".page"}
}

// offered is that service, where there are operators: without clients it would let
// in everybody.
func (o operators) offered() []tor.Service {
	if len(o.keys) == 0 {
		return nil
	}
	s := tor.Service{Dir: o.dir, Clients: map[string]string{}, Ports: []tor.Port{{Virtual: operatorPort, Target: "unix:" + o.socket}}}
	for name, key := range o.keys {
		s.Clients[name] = clientEncoding.EncodeToString(key.Bytes())
	}
	return []tor.Service{s}
}

// ListenOperators takes the connections of operators; nil where there are none.
func (o operators) ListenOperators(ctx context.Context) (net.Listener, error) {
	if len(o.keys) == 0 {
		return nil, nil
	}
	return listenUnix(ctx, o.socket)
}

// found is where operators find this host's page, and who they are; empty without
// any, and before tor has made its key.
func (o operators) found() (address string, names []string) {
	for _, s := range o.offered() {
		if a, err := s.Address(); err == nil {
			return a, slices.Sorted(maps.Keys(o.keys))
		}
	}
	return "", nil
}
