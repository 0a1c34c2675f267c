package gateway

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/gateway/auth"
	"github.com/skein-project/skein/gateway/guard"
	"github.com/skein-project/skein/gateway/registry"
	"github.com/skein-project/skein/internal/durable"
)

// KeyFile is the file of the state directory with the key that signs workers' tokens.
const KeyFile = "gateway.key"

// A key is good for keyLife, and replaced when less than keyRenew of that is left.
const (
	keyLife  = 30 * 24 * time.Hour
	keyRenew = 7 * 24 * time.Hour
	lookKey  = time.Minute
	lookSoon = 500 * time.Millisecond // until it is ready
	// announceTime bounds one announcement.
	announceTime = 10 * time.Second
)

// key is what signs tokens; its zero value signs none.
type key struct {
	auth.Signer
	why string // it signs none; empty: it does
}

// keep has the key that signs tokens announced, and made anew before it ends, until ctx
// ends.
func (g *Gateway) keep(ctx context.Context) {
	for {
		k := g.look(ctx)
		if before := g.key.Swap(&k); before.why != k.why {
			if k.why != "" {
				g.log.Warn().Str("reason", k.why).Msg("gateway lets no worker in")
			} else {
				g.log.Info().Str("url", g.o.HTTP.URL).Msg("gateway open")
			}
		}
		every := lookKey
		if k.why != "" {
			every = lookSoon
		}
		wait := time.NewTimer(every)
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
	}
}

// look says by which key tokens are signed now. It is announced once in each run: of two
// gateways at one URL the one that was started last has it.
func (g *Gateway) look(ctx context.Context) key {
	now := g.wall()
	latest := map[cluster.NodeID]registry.Gateway{}
	for _, x := range g.reg.Gateways() {
		if x.At.After(latest[x.Node].At) {
			latest[x.Node] = x
		}
	}
	own := latest[g.o.Self]
	private, err := readKey(keyPath(g.o.Dir))
	if errors.Is(err, fs.ErrNotExist) || err == nil && own.KID == kidOf(private) && own.Until-now.Unix() < int64(keyRenew.Seconds()) {
		private, err = makeKey(keyPath(g.o.Dir))
	}
	if err != nil {
		return key{why: err.Error()}
	}
	if kid := kidOf(private); kid != g.announced {
		ctx, cancel := context.WithTimeout(ctx, announceTime)
		defer cancel()
		if err := first(g.o.Shared, latest); err != nil {
			return key{why: err.Error()}
		}
		if err := g.o.Announce(ctx, event.GatewayOpened{
			URL: g.o.HTTP.URL, KID: kid, Key: private.Public().(ed25519.PublicKey), Store: store(g.o.Shared), Until: now.Add(keyLife).Unix(),
		}); err != nil {
			return key{why: "its key is not announced yet: " + err.Error()}
		}
		g.announced = kid
	}
	if own.KID != g.announced {
		return key{why: "its key is announced, and not in this host's log yet"}
	}
	for _, x := range latest {
		both := x.Store == own.Store && own.Store != event.StoreMemory // they know the same
		if x.Node != g.o.Self && x.URL == g.o.HTTP.URL && !both && x.At.After(own.At) && now.Unix() < x.Until {
			return key{why: fmt.Sprintf("%s has opened a gateway at %s after this host: each needs a gateway.url of its own, unless gateway.store is redis at both", x.Node, x.URL)}
		}
	}
	return key{Signer: auth.Signer{Cluster: g.o.Cluster, Gateway: g.o.Self, Key: private}}
}

// store is what is announced of what this gateway remembers.
func store(shared guard.Guard) string {
	if shared == nil {
		return event.StoreMemory
	}
	return event.StoreRedis
}

// first tells what gateways share that it has not been used before, if the log knows of no
// gateway that did: what is not there then was not lost.
func first(shared guard.Guard, known map[cluster.NodeID]registry.Gateway) error {
	if shared == nil {
		return nil
	}
	for _, x := range known {
		if x.Store == event.StoreRedis {
			return nil
		}
	}
	return shared.First()
}

func kidOf(k ed25519.PrivateKey) string { return auth.KID(k.Public().(ed25519.PublicKey)) }

func readKey(file string) (ed25519.PrivateKey, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	k, err := access.ParsePrivateKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: remove it, another is made then", file, err)
	}
	return k, nil
}

func makeKey(file string) (ed25519.PrivateKey, error) {
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	text, err := access.FormatPrivateKey(k)
	if err != nil {
		return nil, err
	}
	return k, durable.WriteFile(file, text, 0o600)
}

func keyPath(dir string) string { return filepath.Join(dir, KeyFile) }
