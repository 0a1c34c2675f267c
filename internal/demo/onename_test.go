package demo

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/gateway/guard"
	"github.com/skein-project/skein/internal/balance"
	"github.com/skein-project/skein/internal/servertest/redistest"
)

// status is that of a problem.
func status(t *testing.T, err error) int {
	t.Helper()
	p, ok := errors.AsType[*api.Problem](err)
	if !ok {
		t.Fatalf("%v", err)
	}
	return p.Status
}

// balancer is one without servers.
func balancer(t *testing.T, to ...string) *balance.Balancer {
	t.Helper()
	b, err := balance.Open(t.Context(), "127.0.0.1:0", to...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// TestOneName: gateways of one name behind a balancer that knows nothing of them are one. What
// was begun at one goes on at another, what was used at one is used at all, limits are over
// all, and computers work on while a gateway is killed.
func TestOneName(t *testing.T) {
	parallel(t)
	redis, _ := redistest.Start(t)
	b := balancer(t)
	front := "http://" + b.Addr()
	var at []string
	d, ctx, _ := startGatewaysBehind(t, 3, func(listen string) string {
		at = append(at, listen)
		b.Over(at)
		return b.Addr()
	}, func(*demo) {}, "store = \"redis\"\n", fmt.Sprintf("[redis]\naddresses = \"unix://%s\"\n", redis.Socket), "[api]\nbearer = \"all\"\n")
	for _, one := range at {
		b.Only(one)
		eventually(ctx, t, time.Minute, one+" is a gateway", func() error {
			return outsideAsk(ctx, http.MethodGet, front+"/readyz", "", nil, nil)
		})
	}
	holder, err := d.holder(ctx)
	if err != nil {
		t.Fatal(err)
	}

	// A code of one is good at another, once, and what the first gave a token for works there.
	user := newPortalUser(ctx, t, holder, front, "ann")
	made, err := holder.api.CreateAccess(ctx, api.AccessRequest{Owner: "user:ann", Roles: []string{"work"}, TTLSeconds: 7200})
	if err != nil {
		t.Fatal(err)
	}
	work := made.Secret.Reveal()
	pc := newHomePC(ctx, t, front)
	b.Only(at[0])
	reg, err := pc.register(ctx, front)
	if err != nil || reg.ClaimCode == "" {
		t.Fatalf("%+v, %v", reg, err)
	}
	b.Only(at[1])
	if _, err := pc.token(ctx, front); status(t, err) != http.StatusForbidden || !strings.Contains(err.Error(), "nobody has claimed") {
		t.Errorf("at another, before it is claimed: %v", err)
	}
	claim := api.WorkerClaim{ClaimCode: reg.ClaimCode}
	var claimed api.WorkerClaimed
	if err := outsideAsk(ctx, http.MethodPost, front+"/v1/workers/claim", work, claim, &claimed); err != nil || claimed.Worker != reg.Worker || claimed.Fingerprint != reg.Fingerprint {
		t.Fatalf("%+v, %v", claimed, err)
	}
	b.Only(at[2])
	if err := outsideAsk(ctx, http.MethodPost, front+"/v1/workers/claim", work, claim, nil); status(t, err) != http.StatusNotFound {
		t.Errorf("a used code at a third: %v", err)
	}
	var token api.WorkerToken
	eventually(ctx, t, time.Minute, "its log has it", func() error {
		token, err = pc.token(ctx, front)
		return err
	})
	b.Only(at[0])
	me := front + "/v1/workers/" + string(reg.Worker)
	eventually(ctx, t, time.Minute, "the first takes a token of the third", func() error {
		return outsideAsk(ctx, http.MethodGet, me, token.Token.Reveal(), nil, nil)
	})

	// A signed request is good once, at whichever, of a worker and of a user.
	sign := func(key access.Request, as *homePC, path string, body any) (http.Header, []byte) {
		t.Helper()
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(front)
		if err != nil {
			t.Fatal(err)
		}
		var nonce [access.NonceBytes]byte
		rand.Read(nonce[:])
		key.Cluster, key.Host, key.Path, key.Body = as.cluster, u.Host, path, sha256.Sum256(text)
		proof, err := access.Sign(key, as.key, nonce, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		proof.Put(h)
		return h, text
	}
	h, text := sign(access.Request{Method: http.MethodPost, Outside: true}, pc, "/v1/workers/token", api.WorkerTokenRequest{Client: api.GatewayClient})
	b.Only(at[1])
	if err := outsideSend(ctx, http.MethodPost, front+"/v1/workers/token", h.Clone(), text, nil); err != nil {
		t.Fatal(err)
	}
	for _, other := range at {
		b.Only(other)
		if err := outsideSend(ctx, http.MethodPost, front+"/v1/workers/token", h.Clone(), text, nil); status(t, err) != http.StatusConflict {
			t.Errorf("a worker's request again, at %s: %v", other, err)
		}
	}
	h, text = sign(access.Request{Method: http.MethodGet}, &homePC{key: user.key, cluster: user.cluster}, "/v1/whoami", nil)
	whoami := func() error { return outsideSend(ctx, http.MethodGet, front+"/v1/whoami", h.Clone(), text, nil) }
	b.Only(at[0])
	eventually(ctx, t, time.Minute, "ann is known", func() error {
		h, text = sign(access.Request{Method: http.MethodGet}, &homePC{key: user.key, cluster: user.cluster}, "/v1/whoami", nil)
		return whoami()
	})
	for _, other := range at {
		b.Only(other)
		if err := whoami(); status(t, err) != http.StatusUnauthorized {
			t.Errorf("a user's request again, at %s: %v", other, err)
		}
	}

	// Limits are over all.
	one := newHomePC(ctx, t, front)
	h, text = sign(access.Request{Method: http.MethodPost, Outside: true}, one, "/v1/workers/register",
		api.WorkerRegister{PublicKey: access.FormatPublicKey(one.public()), Client: api.GatewayClient, AccessToken: made.Secret})
	if err := outsideSend(ctx, http.MethodPost, front+"/v1/workers/register", h, text, nil); err != nil {
		t.Fatal(err)
	}
	passed := 0
	for i := range 3 * int(guard.Token.Rate().Burst) {
		b.Only(at[i%3])
		_, err := one.token(ctx, front)
		if err == nil {
			passed++
			continue
		}
		// Of one that is not in a gateway's log yet nobody is asked by name; it counts nowhere.
		if s := status(t, err); s != http.StatusTooManyRequests && s != http.StatusForbidden {
			t.Fatal(err)
		}
	}
	if most := int(guard.Token.Rate().Burst) + 3; passed == 0 || passed > most { // some come in time
		t.Errorf("%d tokens at once, of one worker at three gateways", passed)
	}

	// Computers know the one name; a module goes to one gateway, its job to another.
	b.Only("")
	startHomeWorkers(ctx, t, d, []string{front}, 3)
	const chunks, size = 200, 3_000_000
	spec := job.Spec{Key: "one name", Executor: job.ExecutorWASM, Iterations: chunks * size, Chunk: size, Seed: 7}
	spec.Permission.Outside = true
	user.set(ctx, t, holder, false) // her key, which those have no use for
	var sub api.SubmitResponse
	eventually(ctx, t, time.Minute, "ann submits by the one name", func() error {
		sub, err = user.submit(ctx, front, spec)
		return err
	})
	// outside is how many chunks of outside workers count, and at how many gateways they are.
	outside := func() (accepted int, gateways map[cluster.NodeID]int, err error) {
		gateways = map[cluster.NodeID]int{}
		j, err := holder.api.Job(ctx, string(sub.Job))
		if err != nil {
			return 0, nil, err
		}
		for _, w := range j.Workers {
			if cluster.IsOutside(w.Node) {
				accepted += w.Accepted
			}
		}
		list, err := holder.api.Gateways(ctx)
		for _, g := range list.Gateways {
			if g.Workers != nil && *g.Workers > 0 {
				gateways[g.Node] = *g.Workers
			}
		}
		return accepted, gateways, err
	}
	eventually(ctx, t, 3*time.Minute, "computers work at several gateways, which are seen", func() error {
		n, gateways, err := outside()
		if err != nil || n < 3 || len(gateways) < 2 {
			return fmt.Errorf("%d chunks, %v: %w", n, gateways, errors.Join(err))
		}
		return nil
	})
	var victim *host
	for _, h := range d.hosts {
		if h != holder {
			victim = h
		}
	}
	kill(t, victim)
	before, _, err := outside()
	if err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, 3*time.Minute, "computers go on while a gateway is dead", func() error {
		j, errJ := holder.api.Job(ctx, string(sub.Job))
		n, _, err := outside()
		if err := errors.Join(err, errJ); err != nil || n < before+3 && !j.State.Final() {
			return fmt.Errorf("%d chunks before, %d now: %w", before, n, errors.Join(err))
		}
		return nil
	})
	if j := finish(ctx, t, holder, sub.Job); j.State != job.Completed || j.Chunks.Accepted != chunks || j.Attempts.Failed > 0 {
		t.Errorf("%s: %+v, attempts %+v", j.State, j.Chunks, j.Attempts)
	}
}
