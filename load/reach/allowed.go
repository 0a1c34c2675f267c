package reach

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/guard"
	"github.com/skein-project/skein/load/h1"
)

// ProofPath is where a target shows that it is meant, by the id of the cluster.
const ProofPath = "/.well-known/skein-load"

// Prove asks a target that must show that it is meant; once it has, it is believed.
func (n *Network) Prove(ctx context.Context, o *Origin) error {
	if !o.Limits.Proof || o.proved.Load() {
		return nil
	}
	if err := n.askProof(ctx, o); err != nil {
		return &BlockedError{Reason: guard.Unproven, Why: fmt.Sprintf("%s%s does not answer with the id of the cluster: %v", o.Origin, ProofPath, err)}
	}
	o.proved.Store(true)
	return nil
}

// askProof makes the one request that such a target gets before.
func (n *Network) askProof(ctx context.Context, o *Origin) error {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	list, _, err := n.Resolve(ctx, o, false)
	if err != nil {
		return err
	}
	c, _, _, err := connect(ctx, n, o, list, n.tcp)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if o.TLS {
		secure := tls.Client(c, n.TLS(o, []string{"http/1.1"}))
		if err := secure.HandshakeContext(ctx); err != nil {
			return err
		}
		c = secure
	}
	return h1.Says(c, o.Host, ProofPath, n.o.Agent, n.o.Proof)
}

// room waits until one connection more may be open. release is nil where any number may.
func (n *Network) room(ctx context.Context, o *Origin) (release func(), err error) {
	if o.entry == nil || o.entry.open == nil {
		return nil, nil
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
