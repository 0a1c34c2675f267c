package gatebench

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/gateway/auth"
	"github.com/skein-project/skein/gateway/centrifugo"
	"github.com/skein-project/skein/gateway/channel"
	"github.com/skein-project/skein/gateway/crew"
	"github.com/skein-project/skein/gateway/rpc"
	"github.com/skein-project/skein/internal/servertest"
	"github.com/skein-project/skein/internal/tool"
	"github.com/skein-project/skein/scheduler/stream"
)

// throughCentrifugo is a room whose n askers are connected to a real Centrifugo, which was
// started with what a gateway prints and asks the same as a node of pushes does.
func throughCentrifugo(ctx context.Context, dir string, n int) (r *room, err error) {
	r = &room{wire: &wire{name: "Centrifugo"}}
	var ends []func() error
	r.close = func() (err error) {
		for _, c := range r.askers {
			c.Close()
		}
		for _, end := range slices.Backward(ends) {
			err = errors.Join(err, end())
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", r.name, err), r.close())
		}
	}()
	server, err := servertest.StartRedis(ctx, dir)
	if err != nil {
		return r, err
	}
	ends = append(ends, server.Stop)
	secret, key := strings.Repeat("secret", 5), ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	file := filepath.Join(dir, "secret")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		return r, err
	}
	inner, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return r, err
	}
	ports, err := servertest.Ports(2)
	if err != nil {
		return r, errors.Join(err, inner.Close())
	}
	url, apiURL := "ws://"+ports[0]+"/connection/websocket", "http://"+ports[1]+"/api"

	began := time.Now()
	c, err := crew.New(crew.Options{Now: func() time.Duration { return time.Since(began) }, Logger: zerolog.Nop()})
	if err != nil {
		return r, errors.Join(err, inner.Close())
	}
	running, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	ours, theirs := net.Pipe()
	wg.Go(func() { _ = c.Run(running) }) // says that it was cancelled
	wg.Go(func() { c.Serve(running, "holder", theirs) })
	ends = append(ends, func() error { stop(); err := ours.Close(); wg.Wait(); return err })
	if err := greet(ours, &stream.Encoder{}); err != nil {
		return r, errors.Join(err, inner.Close())
	}
	var node *centrifugo.Node
	service := rpc.New(rpc.Options{
		Crew: rpc.InMemory(c), Anywhere: true, Owner: func(cluster.NodeID) (string, error) { return owner, nil }, Wall: time.Now,
		Push: func(w cluster.NodeID, p api.WorkPush) { node.Push(w, p) },
	})
	ends = append(ends, func() error { service.Close(); return nil })
	if node, err = centrifugo.New(centrifugo.Options{
		API: apiURL, KeyFile: file, SecretFile: file, Open: func(context.Context) (net.Listener, error) { return inner, nil },
		Keys: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			public := key.Public().(ed25519.PublicKey) //nolint:forcetypeassert // always this type
			_ = json.NewEncoder(w).Encode(map[string]any{"keys": []any{auth.PublicJWK(auth.KID(public), public)}})
		}),
		Stays: func(auth.Client) error { return nil }, Listen: own, Call: answersBy(service), Life: auth.TokenLife, Now: quickly(began), Wall: time.Now, Logger: zerolog.Nop(),
	}); err != nil {
		return r, errors.Join(err, inner.Close())
	}
	if err := node.Start(); err != nil {
		return r, errors.Join(err, inner.Close())
	}
	ends = append(ends, func() error { node.Stop(); return nil })
	text, err := centrifugo.File(centrifugo.Settings{
		Cluster: "bench", Gateway: "https://gw.example.org", Proxy: "http://" + inner.Addr().String(), API: apiURL, Clients: url, Key: secret, Secret: secret,
		Redis: centrifugo.Redis{Addresses: []string{"unix://" + server.Socket}, Prefix: redisName},
	})
	config := filepath.Join(dir, "centrifugo.json")
	if err == nil {
		err = os.WriteFile(config, text, 0o600)
	}
	if err != nil {
		return r, err
	}
	fugo, err := servertest.StartCentrifugo(ctx, dir, config)
	if err != nil {
		return r, err
	}
	ends = append(ends, fugo.Stop)
	signer := auth.Signer{Cluster: "bench", Gateway: "gateway", Key: key}
	for i := range n {
		id := cluster.OutsideID(outsider(i))
		token, _, err := signer.Mint(id, fmt.Sprint(i), time.Now())
		if err != nil {
			return r, err
		}
		c, err := connectBy(url, token, id, func([]byte) {})
		if err != nil {
			return r, err
		}
		r.askers = append(r.askers, c)
		var st api.WorkState
		if err := call(ctx, c, api.RPCAttach, newcomer, &st); err != nil {
			return r, err
		}
		r.sessions = append(r.sessions, st.Session)
	}
	return r, nil
}

// OverCentrifugo compares what workers ask over the connections that their gateway keeps with
// those that a Centrifugo keeps, which asks a gateway; the same answers both.
func OverCentrifugo(ctx context.Context, s *suite.Suite) (err error) {
	const group = "connections in a Centrifugo"
	_, noRedis := servertest.Find("redis-server", "redis-server")
	_, noFugo := tool.Find("centrifugo")
	if err := errors.Join(noRedis, noFugo); err != nil {
		s.Skip(group, strings.ReplaceAll(err.Error(), "\n", "; "))
		return nil
	}
	dir, err := os.MkdirTemp(s.Dir, "oc-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	n := min(s.Size.Listeners, rpcWorkers)
	ours, err := inMemory(ctx, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ours.close()) }()
	theirs, err := throughCentrifugo(ctx, dir, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, theirs.close()) }()
	asks := suite.Series{
		Name: fmt.Sprintf("beats by RPC of %d outside workers over a gateway's connections", n), Unit: "RPC/s", Target: suite.Want("ratio", ">=", 2), Digest: suite.Median,
		With: "Centrifugo v5.4.9 on a Redis, whose proxy asks the same",
	}
	for i := range s.Size.Rounds + 1 {
		s.Progress("%s, round %d of %d", group, i, s.Size.Rounds)
		var a, b float64
		measure := func(r *room, rate *float64) func() error {
			return func() (err error) {
				if *rate, err = r.asks(ctx, s.Size.Burst); err != nil {
					return fmt.Errorf("%s: beats: %w", r.name, err)
				}
				return nil
			}
		}
		if err := suite.InTurn(i, measure(ours, &a), measure(theirs, &b)); err != nil {
			return err
		}
		if i > 0 { // the first one warms up
			asks.Ours, asks.Peer = append(asks.Ours, a), append(asks.Peer, b)
		}
	}
	s.Add(asks)
	return nil
}

// own lets workers listen to their own channels.
func own(c auth.Client, name string) *channel.Error {
	worker, _ := c.Worker()
	return channel.Listen(channel.Listener{Worker: worker}, name, func(job.ID) string { return "" })
}
