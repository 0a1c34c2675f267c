package gateway

import (
	"cmp"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/gateway/auth"
	"github.com/skein-project/skein/gateway/channel"
	"github.com/skein-project/skein/gateway/guard"
	"github.com/skein-project/skein/gateway/registry"
	"github.com/skein-project/skein/gateway/rpc"
	"github.com/skein-project/skein/status/door"
)

// maxListed bounds GET /v1/workers.
const maxListed = 1000

// routes is who answers what; realtime takes connections, unless it is nil.
func (g *Gateway) routes(realtime http.Handler) *http.ServeMux {
	m := http.NewServeMux()
	for path, h := range map[string]handler{
		"GET /v1/info":                g.info,
		"GET /healthz":                func(*http.Request) (int, any, error) { return http.StatusOK, struct{}{}, nil },
		"GET /readyz":                 g.readyz,
		"GET /.well-known/jwks.json":  g.jwks,
		"POST /v1/workers/register":   g.register,
		"POST /v1/workers/token":      g.token,
		"POST /v1/workers/claim":      g.claim,
		"POST /v1/realtime/token":     g.listener,
		"GET /v1/workers":             g.workers,
		"GET /v1/workers/{worker}":    g.worker,
		"DELETE /v1/workers/{worker}": g.remove,
		"POST /v1/rpc/{method}":       g.work,
	} {
		m.HandleFunc(path, g.answer(path, h))
	}
	m.HandleFunc("GET /v1/artefacts/{hash}", g.artefact)
	if realtime != nil {
		m.Handle("GET /v1/realtime", g.limits.before(realtime, g.problem))
	}
	if g.o.Users != nil {
		gate := door.Gate{Host: g.o.HTTP.host()}
		if g.o.Shared != nil {
			gate.Used = g.o.Shared
		}
		for _, path := range []string{"/v1/jobs", "/v1/jobs/", "/v1/workflows", "/v1/workflows/", "/v1/artefacts", "/v1/whoami", "/v1/version"} {
			m.Handle(path, g.limits.before(asUser(g.o.Users, gate, g.from), g.problem))
		}
	}
	if g.o.Page != nil {
		m.Handle("GET /{file}", g.limits.before(g.o.Page, g.problem))
		m.Handle("GET /{$}", g.limits.before(g.o.Page, g.problem))
	}
	return m
}

func (g *Gateway) info(*http.Request) (int, any, error) {
	now := g.wall()
	out := api.GatewayInfo{Cluster: g.o.Cluster, Node: g.o.Self, URLs: []string{g.o.HTTP.URL}, WSURL: g.o.Centrifugo.Clients, ServerTime: now.UTC(), MinClient: api.GatewayClient}
	for _, x := range g.reg.Gateways() {
		if now.Unix() < x.Until && !slices.Contains(out.URLs, x.URL) {
			out.URLs = append(out.URLs, x.URL)
		}
	}
	return http.StatusOK, out, nil
}

func (g *Gateway) readyz(*http.Request) (int, any, error) {
	if k := g.key.Load(); k.why != "" {
		return 0, nil, api.Errorf(api.CodeNotReady, "the gateway lets no worker in: %s", k.why)
	}
	if err := g.o.Crew.Why(); err != nil {
		return 0, nil, api.Errorf(api.CodeNotReady, "workers cannot attach: %v", err)
	}
	return http.StatusOK, struct{}{}, nil
}

func (g *Gateway) jwks(*http.Request) (int, any, error) {
	out := api.JWKS{Keys: []json.RawMessage{}}
	for _, x := range g.reg.Gateways() {
		if g.wall().Unix() >= x.Until {
			continue
		}
		text, err := json.Marshal(auth.PublicJWK(x.KID, x.Key))
		if err != nil {
			return 0, nil, err
		}
		out.Keys = append(out.Keys, text)
	}
	return http.StatusOK, out, nil
}

// register lets a worker in, or tells it by which code its owner claims it.
func (g *Gateway) register(r *http.Request) (int, any, error) {
	text, err := g.body(r, g.from(r), maxBody)
	if err != nil {
		return 0, nil, err
	}
	var req api.WorkerRegister
	if err := rpc.Decode(text, &req); err != nil {
		return 0, nil, err
	}
	public, err := access.ParsePublicKey([]byte(req.PublicKey))
	if err != nil {
		return 0, nil, api.Errorf(api.CodeInvalidRequest, "public_key: %v", err)
	}
	if err := g.signed(r, text, cluster.OutsideID(public), public); err != nil {
		return 0, nil, err
	}
	status, out, err := g.registered(r, req, public)
	if err != nil {
		g.forget(r)
	}
	return status, out, err
}

// registered is what comes of the registration of a worker that has proved its key.
func (g *Gateway) registered(r *http.Request, req api.WorkerRegister, public ed25519.PublicKey) (int, any, error) {
	id := cluster.OutsideID(public)
	if err := rpc.TooOld(req.Client); err != nil {
		return 0, nil, err
	}
	if err := (event.WorkerEnrolled{Worker: id, Key: public, Owner: "user:x", Name: req.Name}).Check(); err != nil {
		return 0, nil, api.Errorf(api.CodeInvalidRequest, "%v", err)
	}
	out := api.WorkerRegistered{Worker: id, State: api.StateEnrolled, Fingerprint: auth.Fingerprint(public)}
	if w, known := g.reg.Worker(id); known {
		out.Owner = w.Owner
		return http.StatusOK, out, cmp.Or(admitted(w), g.limits.count(r, guard.Ask{Limit: guard.Token, Who: string(id)}))
	}
	if req.AccessToken != "" {
		a, err := g.access(r, req.AccessToken.Reveal(), "work")
		if err != nil {
			return 0, nil, err
		}
		if err := g.limits.settle(r); err != nil {
			return 0, nil, err
		}
		if _, err := g.o.Owners.OwnWorker(r.Context(), req.AccessToken, id, public, req.Name); err != nil {
			return 0, nil, err
		}
		out.Owner = a.Owner
		return http.StatusCreated, out, nil
	}
	if err := g.limits.count(r, guard.Ask{Limit: guard.Register, Who: g.from(r)}); err != nil {
		return 0, nil, err
	}
	code := newCode()
	err := g.guard.Open(code.Hash(g.o.Secret), guard.Claim{Worker: id, Key: public, Name: req.Name, Left: guard.ClaimLife})
	if errors.Is(err, guard.ErrRoom) {
		return 0, nil, api.Errorf(api.CodeOverloaded, "%v: at most %d may", err, guard.MaxClaims)
	}
	if err != nil {
		return 0, nil, down(err)
	}
	out.State, out.ClaimCode, out.ExpiresAt = api.StateUnclaimed, api.Secret(code.Text()), new(g.wall().Add(guard.ClaimLife).UTC())
	return http.StatusCreated, out, nil
}

// admitted says why a worker gets nothing.
func admitted(w registry.Worker) error {
	switch {
	case w.Revoked:
		return api.Errorf(api.CodeForbidden, "%s was revoked: its key is never let in again", w.ID).WithHint("begin with a new key")
	case w.Disabled:
		return api.Errorf(api.CodeForbidden, "the owner of %s may do nothing at present", w.ID)
	}
	return nil
}

// token gives a worker a short token.
func (g *Gateway) token(r *http.Request) (int, any, error) {
	text, err := g.body(r, g.from(r), maxBody)
	if err != nil {
		return 0, nil, err
	}
	id := cluster.NodeID(r.Header.Get(access.HeaderKey))
	w, enrolled := g.reg.Worker(id)
	key, known := w.Key, enrolled
	if !enrolled {
		if key, known, err = g.guard.Waiting(id); err != nil {
			return 0, nil, down(err)
		}
	}
	if !known { // who has a claim open is told the same
		return 0, nil, g.refuse(r, unclaimed())
	}
	if err := g.signed(r, text, id, key); err != nil {
		return 0, nil, err
	}
	out, err := g.minted(r, text, w, id)
	if err != nil {
		g.forget(r)
	}
	return http.StatusOK, out, err
}

func unclaimed() *api.Problem {
	return api.Errorf(api.CodeForbidden, "nobody has claimed this worker").WithHint("register it, and have its owner claim it")
}

// minted is a token for a worker that has proved its key; w is empty while it waits for its
// owner.
func (g *Gateway) minted(r *http.Request, text []byte, w registry.Worker, id cluster.NodeID) (out api.WorkerToken, err error) {
	var req api.WorkerTokenRequest
	if err := rpc.Decode(text, &req); err != nil {
		return out, err
	}
	if err := cmp.Or(rpc.TooOld(req.Client), admitted(w), g.limits.count(r, guard.Ask{Limit: guard.Token, Who: string(id)})); err != nil {
		return out, err
	}
	if w.ID == "" {
		return out, unclaimed()
	}
	k := g.key.Load()
	if k.why != "" {
		return out, api.Errorf(api.CodeNotReady, "the gateway lets no worker in: %s", k.why)
	}
	token, expires, err := k.Mint(id, random(), g.wall())
	if err != nil {
		return out, fmt.Errorf("token: %w", err)
	}
	return api.WorkerToken{Token: api.Secret(token), ExpiresAt: expires.UTC(), WSURL: g.o.Centrifugo.Clients}, nil
}

// listener gives who has an access token a short token to listen with.
func (g *Gateway) listener(r *http.Request) (int, any, error) {
	_, a, err := g.owner(r, "")
	if err != nil {
		return 0, nil, err
	}
	if !(channel.Listener{Roles: a.Roles}).Sees() {
		return 0, nil, api.Errorf(api.CodeForbidden, "this access token is not for watch").WithHint("`skein gateway token create --role watch` makes one")
	}
	if err := g.limits.count(r, guard.Ask{Limit: guard.Token, Who: a.ID}); err != nil {
		return 0, nil, err
	}
	k := g.key.Load()
	if k.why != "" {
		return 0, nil, api.Errorf(api.CodeNotReady, "the gateway lets nobody connect: %s", k.why)
	}
	now := g.wall()
	token, expires, err := k.For(auth.OfAccess(a.ID), random(), now, a.Expires)
	if err != nil {
		return 0, nil, fmt.Errorf("token: %w", err)
	}
	user, _ := strings.CutPrefix(a.Owner, cluster.UserPrincipal("")) // all access tokens are users'
	return http.StatusOK, api.RealtimeToken{
		Token: api.Secret(token), ExpiresAt: expires.UTC(), WSURL: g.o.Centrifugo.Clients, Channel: api.UserChannel + user,
	}, nil
}

// claim makes a worker that waits for its owner one of who knows its code.
func (g *Gateway) claim(r *http.Request) (int, any, error) {
	if err := g.limits.will(r, guard.Ask{Limit: guard.Claims, Who: g.from(r)}); err != nil {
		return 0, nil, err
	}
	token, a, err := g.owner(r, "work")
	if err != nil {
		return 0, nil, err
	}
	text, err := g.body(r, g.from(r), maxBody)
	if err != nil {
		return 0, nil, err
	}
	var req api.WorkerClaim
	if err := rpc.Decode(text, &req); err != nil {
		return 0, nil, err
	}
	if err := g.limits.count(r, guard.Ask{Limit: guard.Guess, Who: a.ID, Look: true}); err != nil {
		return 0, nil, err
	}
	var h guard.Hash // of what is no code at all: nobody waits under it
	if code, err := auth.ParseCode(req.ClaimCode.Reveal()); err == nil {
		h = code.Hash(g.o.Secret)
	}
	x, err := g.guard.Take(h, a.ID)
	switch {
	case errors.Is(err, guard.ErrNoClaim):
		g.metrics.failed.Inc()
		return 0, nil, api.Errorf(api.CodeNotFound, "%v", err).WithHint("a code is good for %v, once, %s", guard.ClaimLife, where(g.o.Shared))
	case err != nil:
		return 0, nil, down(g.limits.late(err))
	}
	if _, err := g.o.Owners.OwnWorker(r.Context(), api.Secret(token), x.Worker, x.Key, x.Name); err != nil {
		g.guard.Back(h, x)
		return 0, nil, err
	}
	return http.StatusOK, api.WorkerClaimed{Worker: x.Worker, Fingerprint: auth.Fingerprint(x.Key), Name: x.Name}, nil
}

// work is what a worker asks by HTTP.
func (g *Gateway) work(r *http.Request) (int, any, error) {
	worker, err := g.workerAlone(r)
	if err != nil {
		return 0, nil, err
	}
	text, err := g.body(r, string(worker), maxRPC)
	if err != nil {
		return 0, nil, err
	}
	out, err := g.call(rpc.Caller{Worker: worker}, r.PathValue("method"), text, func(a guard.Ask) error { return g.limits.count(r, a) })
	return http.StatusOK, out, err
}

// call is what a worker asks, as often as it may, which count says.
func (g *Gateway) call(by rpc.Caller, method string, text []byte, count func(guard.Ask) error) (any, error) {
	of := guard.Call
	switch method {
	case api.RPCAttach:
		of = guard.Attach
	case api.RPCBeat:
		of = guard.Beat
	case api.RPCComplete:
		of = guard.Complete
	}
	err := count(guard.Ask{Limit: of, Who: string(by.Worker)})
	var out any
	if err == nil {
		out, err = g.rpc.Call(by, method, text)
	}
	g.metrics.call(method, out, err)
	return out, err
}

// overConn is what a worker asks over its connection.
func (g *Gateway) overConn(worker cluster.NodeID, conn, method string, text []byte) (any, *api.Problem) {
	if len(text) > api.MaxCall {
		return nil, g.told("over a connection", api.Errorf(api.CodeTooLarge, "a request over a connection is longer than %d bytes: longer ones go by HTTP, to /v1/rpc/%.32s", api.MaxCall, method))
	}
	out, err := g.call(rpc.Caller{Worker: worker, Conn: conn}, method, text, func(a guard.Ask) error { return g.limits.now(a) })
	if err != nil {
		return nil, g.told("over a connection", err)
	}
	return out, nil
}

// ownerOf is whose a worker is, or why it gets nothing.
func (g *Gateway) ownerOf(worker cluster.NodeID) (string, error) {
	w, known := g.reg.Worker(worker)
	if !known {
		return "", unclaimed()
	}
	return w.Owner, admitted(w)
}

// workers lists those of who asks.
func (g *Gateway) workers(r *http.Request) (int, any, error) {
	_, a, err := g.owner(r, "")
	if err != nil {
		return 0, nil, err
	}
	out := api.GatewayWorkers{Workers: []api.GatewayWorker{}}
	for _, w := range g.o.Owners.OwnWorkers(a.Owner, maxListed) {
		out.Workers = append(out.Workers, shown(w))
	}
	return http.StatusOK, out, nil
}

func shown(w api.OutsideWorker) api.GatewayWorker {
	return api.GatewayWorker{Worker: w.Worker, Name: w.Name, Owner: w.Owner, State: w.State, Trusted: w.Trusted, Zone: w.Zone, At: w.At}
}

// worker shows a worker to itself and to its owner.
func (g *Gateway) worker(r *http.Request) (int, any, error) {
	id := cluster.NodeID(r.PathValue("worker"))
	by, owner, err := g.workerOrOwner(r)
	if err != nil {
		return 0, nil, err
	}
	w, known := g.reg.Worker(id)
	if !known || by != id && owner != w.Owner {
		return 0, nil, noWorker(id)
	}
	out := api.GatewayWorker{Worker: id, Name: w.Name, Owner: w.Owner, State: api.StateEnrolled, Trusted: w.Trusted, Zone: w.Zone, At: w.At}
	switch {
	case w.Revoked:
		out.State = api.StateRevoked
	case w.Disabled:
		out.State = api.StateDisabled
	}
	return http.StatusOK, out, nil
}

func noWorker(id cluster.NodeID) error {
	return api.Errorf(api.CodeNotFound, "you have no worker %.64q", string(id))
}

// remove shuts out a worker of who asks, for ever.
func (g *Gateway) remove(r *http.Request) (int, any, error) {
	id := cluster.NodeID(r.PathValue("worker"))
	token, a, err := g.owner(r, "work")
	if err != nil {
		return 0, nil, err
	}
	if w, known := g.reg.Worker(id); !known || w.Owner != a.Owner {
		return 0, nil, noWorker(id)
	}
	if err := g.limits.settle(r); err != nil {
		return 0, nil, err
	}
	w, err := g.o.Owners.OwnWorker(r.Context(), api.Secret(token), id, nil, "")
	return http.StatusOK, shown(w), err
}
