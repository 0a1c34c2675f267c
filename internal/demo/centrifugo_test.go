package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/centrifugal/centrifuge-go"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/gateway/centrifugo"
	"github.com/skein-project/skein/internal/require"
	"github.com/skein-project/skein/internal/servertest"
	"github.com/skein-project/skein/internal/servertest/redistest"
)

// TestCentrifugo: outside workers whose connections a Centrifugo keeps, which was started
// with what the program prints, work on jobs, one after the other, while Centrifugo, a gateway
// and the holder are killed: each chunk counts once, and each job is what one computer alone
// makes of it, to the bit. Hosts leave all of it to them. Without Centrifugo they go on by
// HTTP. Who is revoked is disconnected within a second.
//
// SKEIN_PROVE=1 has 30 computers, and does all that three times.
func TestCentrifugo(t *testing.T) {
	require.Need(t, require.Centrifugo)
	parallel(t)
	n, rounds, chunks, size := 4, 1, 100, 20_000_000/leisurely(t)
	if proving() {
		n, rounds, chunks = 30, 3, 500
	}
	redis, base := redistest.Start(t)
	ports, err := servertest.Ports(2)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"api.key", "proxy.secret"} {
		if err := os.WriteFile(filepath.Join(base, name), []byte(strings.Repeat(name, 4)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	inner := map[int]string{}
	outer := map[int]string{}
	d, ctx := startWith(t, 3, func(d *demo) {
		calm(d)
		d.env = func(int, int) []string { return []string{"SKEIN_WORKER_ACCEPT=none"} } // hosts leave all to others
		d.settings = func(i int) string {
			a, errA := d.freePort()
			b, errB := d.freePort()
			if err := errors.Join(errA, errB); err != nil {
				t.Error(err)
			}
			outer[i], inner[i] = fmt.Sprintf("127.0.0.1:%d", a), fmt.Sprintf("127.0.0.1:%d", b)
			return fmt.Sprintf("[gateway]\nlisten = %q\ninternal_listen = %q\nstore = \"redis\"\npush = \"centrifugo\"\n[redis]\naddresses = \"unix://%s\"\n[api]\nbearer = \"all\"\n", outer[i], inner[i], redis.Socket) +
				fmt.Sprintf("[centrifugo]\napi_url = \"http://%s/api\"\nws_url = \"ws://%s/connection/websocket\"\napi_key_file = %q\nsecret_file = %q\n", ports[1], ports[0], filepath.Join(base, "api.key"), filepath.Join(base, "proxy.secret"))
		}
	})
	urls := map[*host]string{}
	var gateways, asked []string
	for i, h := range d.hosts {
		urls[h] = "http://" + outer[i]
		gateways, asked = append(gateways, urls[h]), append(asked, inner[i])
		eventually(ctx, t, time.Minute, h.name+" is a gateway", func() error {
			return outsideAsk(ctx, http.MethodGet, urls[h]+"/readyz", "", nil, nil)
		})
	}
	file := filepath.Join(base, "centrifugo.json")
	if out, stderr, code := d.cli(ctx, d.hosts[0], "gateway", "centrifugo-config", "--config", d.hosts[0].config, "--ask-url", "http://"+balancer(t, asked...).Addr(), "--out", file); code != 0 {
		t.Fatalf("%d: %s%s", code, out, stderr)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	fugo, err := servertest.StartCentrifugo(ctx, base, file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fugo.Stop() })
	if text, err := fugo.Output(); err != nil || strings.Contains(text, "unknown key") || !strings.Contains(text, "serving") {
		t.Fatalf("Centrifugo says, %v:\n%s", err, text)
	}

	spec, err := d.upload(ctx, filepath.Join(bin, "examples", "pi.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	startHomeWorkers(ctx, t, d, gateways, n)
	fugoAt := centrifugo.Server{API: "http://" + ports[1] + "/api", KeyFile: filepath.Join(base, "api.key")}
	connected := func(want int) {
		t.Helper()
		eventually(ctx, t, 3*time.Minute, "workers are connected to Centrifugo", func() error {
			all, err := fugoAt.Connections(ctx)
			if err == nil && all != want {
				err = fmt.Errorf("%d are", all)
			}
			return err
		})
	}
	connected(n)
	revokedAtOnce(ctx, t, d, urls[d.hosts[1]])

	ann := newPortalUser(ctx, t, d.hosts[0], urls[d.hosts[0]], "ann")
	spec.Key, spec.Iterations, spec.Chunk, spec.Seed = "by centrifugo", uint64(chunks)*size, size, 7
	spec.Permission.Outside = true
	jobs := newSameJobs(ctx, t, d, urls, ann, spec)
	jobs.goOn("at first")
	for range rounds {
		if err := fugo.Stop(); err != nil {
			t.Fatal(err)
		}
		jobs.goOn("Centrifugo was killed")
		if err := fugo.Start(ctx); err != nil {
			t.Fatal(err)
		}
		connected(n)
		jobs.goOn("Centrifugo came back")
		holder, err := d.holder(ctx)
		if err != nil {
			t.Fatal(err)
		}
		other := d.other(holder)
		kill(t, other)
		jobs.goOn("a gateway was killed")
		start1(t, other)
		kill(t, holder)
		jobs.goOn("the holder was killed")
		start1(t, holder)
		eventually(ctx, t, 3*time.Minute, holder.name+" is a gateway again", func() error {
			return outsideAsk(ctx, http.MethodGet, urls[holder]+"/readyz", "", nil, nil)
		})
	}
	jobs.end()
}

// revokedAtOnce: a worker that is connected is disconnected within a second after it was
// revoked at a host, and not let in again by its token.
func revokedAtOnce(ctx context.Context, t *testing.T, d *demo, gateway string) {
	t.Helper()
	pc := newHomePC(ctx, t, gateway)
	if out, stderr, code := d.cli(ctx, d.hosts[0], "gateway", "worker", "add", "--key", access.FormatPublicKey(pc.public()), "--owner", "user:ann"); code != 0 {
		t.Fatalf("%d: %s%s", code, out, stderr)
	}
	var tok api.WorkerToken
	eventually(ctx, t, time.Minute, "it gets a token", func() (err error) {
		tok, err = pc.token(ctx, gateway)
		return err
	})
	var info api.GatewayInfo
	if err := outsideAsk(ctx, http.MethodGet, gateway+"/v1/info", "", nil, &info); err != nil || tok.WSURL == "" || info.WSURL != tok.WSURL {
		t.Fatalf("where to connect: %q and %q, %v", info.WSURL, tok.WSURL, err)
	}
	id := cluster.OutsideID(pc.public())
	// dial connects and listens; the channel has the code by which it ends, 0 when it listens.
	dial := func() <-chan uint32 {
		said := make(chan uint32, 10)
		c := centrifuge.NewJsonClient(tok.WSURL, centrifuge.Config{Token: tok.Token.Reveal(), ReadTimeout: 10 * time.Second, HandshakeTimeout: 10 * time.Second})
		t.Cleanup(c.Close)
		c.OnDisconnected(func(e centrifuge.DisconnectedEvent) { said <- e.Code })
		sub, err := c.NewSubscription(api.WorkChannel + string(id))
		if err == nil {
			sub.OnSubscribed(func(centrifuge.SubscribedEvent) { said <- 0 })
			err = errors.Join(sub.Subscribe(), c.Connect())
		}
		if err != nil {
			t.Fatal(err)
		}
		return said
	}
	hear := func(what string, said <-chan uint32, want uint32) {
		t.Helper()
		select {
		case got := <-said:
			if got != want {
				t.Errorf("%s: %d, want %d", what, got, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: nothing", what)
		}
	}
	said := dial()
	hear("it listens", said, 0)
	if out, stderr, code := d.cli(ctx, d.hosts[2], "gateway", "worker", "revoke", string(id)); code != 0 {
		t.Fatalf("%d: %s%s", code, out, stderr)
	}
	began := time.Now()
	hear("revoked", said, uint32(api.DisconnectRevoked))
	took := time.Since(began)
	t.Logf("disconnected %v after it was revoked", took)
	if took > time.Second {
		t.Errorf("disconnected %v after it was revoked", took)
	}
	hear("revoked, with its old token", dial(), uint32(api.DisconnectRevoked))
}
