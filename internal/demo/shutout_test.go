package demo

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/centrifugal/centrifuge-go"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// ended is how a connection at a gateway ended, and when.
type ended struct {
	host string
	code uint32
	at   time.Time
}

// connectAt keeps connections of a computer open at all gateways, until they end.
func connectAt(ctx context.Context, t *testing.T, pc *homePC, urls map[*host]string) <-chan ended {
	t.Helper()
	out := make(chan ended, 2*len(urls))
	for h, url := range urls {
		var tok api.WorkerToken
		eventually(ctx, t, 30*time.Second, h.name+" knows the computer", func() (err error) {
			tok, err = pc.token(ctx, url)
			return err
		})
		c := centrifuge.NewJsonClient("ws"+strings.TrimPrefix(url, "http")+"/v1/realtime", centrifuge.Config{Token: tok.Token.Reveal()})
		t.Cleanup(c.Close)
		up := make(chan struct{}, 1)
		c.OnConnected(func(centrifuge.ConnectedEvent) {
			select {
			case up <- struct{}{}:
			default: // again
			}
		})
		c.OnDisconnected(func(e centrifuge.DisconnectedEvent) {
			select {
			case out <- ended{h.name, e.Code, time.Now()}:
			default: // the test is over
			}
		})
		if err := c.Connect(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-up:
		case e := <-out:
			t.Fatalf("not let in at %s: %d", e.host, e.code)
		case <-time.After(30 * time.Second):
			t.Fatalf("no connection to %s", h.name)
		}
	}
	return out
}

// shutOutSoon has computers of two users connected at all gateways. One is revoked, of the
// other the owner is disabled: each loses its connections at all gateways soon, and is told
// that to come again would not help.
func shutOutSoon(ctx context.Context, t *testing.T, d *demo, urls map[*host]string) {
	t.Helper()
	most := 5 * time.Second // a busy machine is no proof
	if proving() {
		most = time.Second
	}
	one := d.hosts[0]
	enrolled := func(user string) (*homePC, string) {
		t.Helper()
		if _, err := one.api.SetUser(ctx, user, api.UserRequest{Role: "submitter"}); err != nil {
			t.Fatal(err)
		}
		made, err := one.api.CreateAccess(ctx, api.AccessRequest{Owner: "user:" + user, Roles: []string{"work"}, TTLSeconds: 3600})
		if err != nil {
			t.Fatal(err)
		}
		pc := newHomePC(ctx, t, urls[one])
		var reg api.WorkerRegistered
		if err := pc.signed(ctx, urls[one], "/v1/workers/register", api.WorkerRegister{
			PublicKey: access.FormatPublicKey(pc.public()), Name: user, Client: api.GatewayClient, AccessToken: made.Secret,
		}, &reg); err != nil {
			t.Fatal(err)
		}
		return pc, made.Secret.Reveal()
	}
	check := func(what string, out <-chan ended, shut func() error) {
		t.Helper()
		if err := shut(); err != nil {
			t.Fatal(err)
		}
		logged := time.Now()
		var took []string
		for range urls {
			select {
			case e := <-out:
				took = append(took, fmt.Sprint(e.host, " ", e.at.Sub(logged).Round(time.Millisecond)))
				if e.code != uint32(api.DisconnectRevoked) || e.at.Sub(logged) > most {
					t.Errorf("%s: %s disconnects it with %d after %v", what, e.host, e.code, e.at.Sub(logged))
				}
			case <-time.After(30 * time.Second):
				t.Fatalf("%s: only %d of %d gateways disconnect it", what, len(took), len(urls))
			}
		}
		t.Logf("%s: disconnected after %s", what, strings.Join(took, ", "))
	}
	dora, token := enrolled("dora")
	emil, _ := enrolled("emil")
	doras, emils := connectAt(ctx, t, dora, urls), connectAt(ctx, t, emil, urls)
	check("a computer that is revoked", doras, func() error {
		return outsideAsk(ctx, http.MethodDelete, urls[one]+"/v1/workers/"+string(cluster.OutsideID(dora.public())), token, nil, nil)
	})
	check("a computer of a user who is disabled", emils, func() error {
		_, err := one.api.SetUser(ctx, "emil", api.UserRequest{Role: "submitter", Disabled: true})
		return err
	})
}
