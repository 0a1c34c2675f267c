package engine

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/guard"
	"github.com/skein-project/skein/load/h1"
)

// ProofPath is where a target shows that it is meant, by the id of the cluster.
const ProofPath = "/.well-known/skein-load"

// prove asks a target that must show that it is meant; once it has, it is believed.
func (n *network) prove(ctx context.Context, o *origin) error {
	if !o.limits.Proof || o.proved.Load() {
		return nil
	}
	if err := n.askProof(ctx, o); err != nil {
		return &blockedError{reason: guard.Unproven, why: fmt.Sprintf("%s%s does not answer with the id of the cluster: %v", o.Origin, ProofPath, err)}
	}
	o.proved.Store(true)
	return nil
}

// askProof makes the one request that such a target gets before.
func (n *network) askProof(ctx context.Context, o *origin) error {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	list, _, err := n.resolve(ctx, o, false)
	if err != nil {
		return err
	}
	c, _, _, err := n.connect(ctx, o, list)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if o.TLS {
		cfg := n.tls.Clone()
		if cfg.ServerName == "" {
			cfg.ServerName = o.Name
		}
		cfg.NextProtos = onlyH1
		secure := tls.Client(c, cfg)
		if err := secure.HandshakeContext(ctx); err != nil {
			return err
		}
		c = secure
	}
	return h1.Says(c, o.Host, ProofPath, n.o.Agent, n.o.Proof)
}

// room waits until one connection more may be open.
func (n *network) room(ctx context.Context, o *origin) (release func(), err error) {
	if o.entry == nil || o.entry.open == nil {
		return func() {}, nil
	}
	select {
	case o.entry.open <- struct{}{}:
	default:
		n.full.Store(true)
		select {
		case o.entry.open <- struct{}{}:
		case <-ctx.Done():
			return nil, &h1.Error{Class: ended(ctx, load.Generator), Err: fmt.Errorf("the host allows %d connections to %s at a time", cap(o.entry.open), o.Host)}
		}
	}
	var once sync.Once
	return func() { once.Do(func() { <-o.entry.open }) }, nil
}

// counted is a connection that makes room for another one when it is closed.
func counted(c net.Conn, o *origin, release func()) net.Conn {
	if o.entry == nil || o.entry.open == nil {
		return c
	}
	return h1.Closing(c, release)
}
