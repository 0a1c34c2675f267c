package gateway

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/gateway/auth"
	"github.com/skein-project/skein/gateway/guard"
	"github.com/skein-project/skein/gateway/registry"
	"github.com/skein-project/skein/status/door"
)

// handler answers a request: a status and a body, or an error.
type handler func(r *http.Request) (status int, body any, err error)

// serve is the outermost handler.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if (door.API{Origins: g.o.HTTP.Origins}).CrossOrigin(w, r) {
		return
	}
	r = withTab(r)
	if err := g.limits.will(r, guard.Ask{Limit: guard.Address, Who: g.from(r)}); err != nil {
		g.problem(w, "other", err)
		return
	}
	if _, known := g.mux.Handler(r); known == "" {
		if err := g.limits.settle(r); err != nil {
			g.problem(w, "other", err)
			return
		}
		g.problem(w, "other", api.Errorf(api.CodeNotFound, "%s %.100q is not served here", r.Method, r.URL.Path))
		return
	}
	g.mux.ServeHTTP(w, r)
}

// answer makes an http.HandlerFunc of h.
func (g *Gateway) answer(route string, h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), deadline)
		defer cancel()
		status, out, err := h(r.WithContext(ctx))
		if late := g.limits.settle(r); late != nil {
			err = late
		}
		if err != nil {
			g.problem(w, route, err)
			return
		}
		g.write(w, route, status, "application/json", out)
	}
}

// told is what somebody learns of an error.
func (g *Gateway) told(route string, err error) *api.Problem {
	p, ok := errors.AsType[*api.Problem](err)
	if !ok {
		g.log.Warn().Err(err).Str("request", route).Msg("request of the gateway failed")
		p = api.Errorf(api.CodeInternal, "it failed: the host's log says why")
	}
	told := *p
	told.Header = api.Header{APIVersion: api.APIVersion, Node: g.o.Self, ObservedAt: g.wall().UTC()}
	if told.Code == api.CodeUnauthorized {
		told.ServerTime = new(g.wall().UTC())
	}
	return &told
}

func (g *Gateway) problem(w http.ResponseWriter, route string, err error) {
	told := g.told(route, err)
	if told.RetryAfterSeconds != nil {
		w.Header().Set("Retry-After", strconv.Itoa(int(*told.RetryAfterSeconds)+1))
	}
	g.write(w, route, told.Status, "application/problem+json", told)
}

func (g *Gateway) write(w http.ResponseWriter, route string, status int, kind string, out any) {
	g.metrics.requests.WithLabelValues(route, strconv.Itoa(status/100)+"xx").Inc()
	text, err := json.Marshal(out)
	if err != nil {
		g.log.Error().Err(err).Str("request", route).Msg("answer cannot be written")
		status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // who asked may have gone
}

// body reads what came of who, at most limit bytes of it. All bodies together have a bound,
// and so have those of one.
func (g *Gateway) body(r *http.Request, who string, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, api.Errorf(api.CodeTooLarge, "body is longer than %d bytes", limit)
	}
	if r.ContentLength >= 0 {
		limit = r.ContentLength
	}
	leave, ok := g.reading.enter(who, limit)
	if !ok {
		return nil, api.Errorf(api.CodeNotReady, "too many bodies are read already: at most %d bytes at once, %d of one that asks", maxReading, maxReadingOf)
	}
	defer leave()
	text, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, limit))
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return nil, api.Errorf(api.CodeTooLarge, "body is longer than %d bytes", limit)
	}
	if err != nil {
		return nil, api.Errorf(api.CodeInvalidRequest, "the body did not come whole")
	}
	return text, nil
}

// unauthorized is all that anybody learns of a proof that is refused.
func unauthorized() *api.Problem {
	return api.Errorf(api.CodeUnauthorized, "no good proof of who asks").
		WithHint("a worker signs, or shows its token; an owner shows an access token; the clock must be right")
}

// refuse counts a refused proof of an address, and says prob unless it must wait.
func (g *Gateway) refuse(r *http.Request, prob *api.Problem) error {
	g.metrics.failed.Inc()
	if err := g.limits.count(r, guard.Ask{Limit: guard.Proof, Who: g.from(r)}); err != nil {
		return err
	}
	return prob
}

// signed checks that the worker id signed a request, whose body is text, just now and for
// this gateway, for the first time.
func (g *Gateway) signed(r *http.Request, text []byte, id cluster.NodeID, key ed25519.PublicKey) error {
	if err := g.limits.mayProve(r); err != nil {
		return err
	}
	proof, there, err := access.ProofOf(r.Header)
	if err == nil && !there {
		err = errors.New("not signed")
	}
	now := g.wall()
	if err == nil {
		err = proof.Verify(access.Request{
			Cluster: g.o.Cluster, Method: r.Method, Host: g.o.HTTP.host(), Path: r.URL.EscapedPath(), Query: r.URL.RawQuery,
			Body: sha256.Sum256(text), Outside: true,
		}, key, now)
	}
	if err == nil {
		err = g.guard.Use(proof, now)
	}
	early, isEarly := errors.AsType[*access.EarlyError](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, access.ErrDown):
		return api.Errorf(api.CodeNotReady, "%v", err)
	case errors.Is(err, access.ErrFull):
		return api.Errorf(api.CodeOverloaded, "%v", err)
	case isEarly:
		p := api.Errorf(api.CodeOverloaded, "%v", err)
		p.RetryAfterSeconds = new(early.After.Seconds())
		return p
	case errors.Is(err, access.ErrUsed):
		// Its key signed it, so who asks may hear what is wrong: a proxy that asks twice does
		// not make an honest worker seem a forger, and the next try is signed anew.
		return g.refuse(r, api.Errorf(api.CodeConflict, "this signed request was taken already").WithHint("sign it anew: a nonce is good once"))
	}
	g.log.Debug().Err(err).Str("addr", g.from(r)).Str("worker", string(id)).Msg("proof of a worker refused")
	return g.refuse(r, unauthorized())
}

// forget gives the nonce of a request back that was signed well, but not done: else who is
// refused, or told to wait, could fill the room of all others.
func (g *Gateway) forget(r *http.Request) {
	if proof, there, err := access.ProofOf(r.Header); there && err == nil {
		g.guard.Forget(proof)
	}
}

// down is what somebody is told while what gateways share is not there.
func down(err error) error {
	if errors.Is(err, guard.ErrDown) {
		return api.Errorf(api.CodeNotReady, "%v", err)
	}
	return err
}

func bearer(r *http.Request) string {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(text)
}

// owner is who asks with an access token that is for role; empty: for any.
func (g *Gateway) owner(r *http.Request, role string) (text string, a registry.Access, err error) {
	text = bearer(r)
	a, err = g.access(r, text, role)
	return text, a, err
}

// access is what the access token text is good for, at least role.
func (g *Gateway) access(r *http.Request, text, role string) (registry.Access, error) {
	if err := g.limits.mayProve(r); err != nil {
		return registry.Access{}, err
	}
	a, ok := g.reg.Access(text, g.wall())
	if !ok {
		return registry.Access{}, g.refuse(r, unauthorized())
	}
	if role != "" && !slices.Contains(a.Roles, role) {
		return registry.Access{}, api.Errorf(api.CodeForbidden, "this access token is not for %s", role).WithHint("`skein gateway token create --role %s` makes one", role)
	}
	return a, g.limits.will(r, guard.Ask{Limit: guard.Owner, Who: a.ID})
}

// workerOrOwner is the worker that shows its token, or the owner that shows an access
// token.
func (g *Gateway) workerOrOwner(r *http.Request) (worker cluster.NodeID, owner string, err error) {
	text := bearer(r)
	if strings.Count(text, ".") != 2 {
		_, a, err := g.owner(r, "")
		return "", a.Owner, err
	}
	if err := g.limits.mayProve(r); err != nil {
		return "", "", err
	}
	client, _, err := g.clientOf(text)
	worker, works := client.Worker()
	if err != nil || !works { // a listener's token cannot ask anything
		return "", "", g.refuse(r, unauthorized())
	}
	return worker, "", nil
}

// clientOf is whose token text is, and until when.
func (g *Gateway) clientOf(text string) (auth.Client, time.Time, error) {
	now := g.wall()
	return auth.Parse(text, g.o.Cluster, now, keysOf(g.reg, now))
}

// workerAlone is the worker that shows its token.
func (g *Gateway) workerAlone(r *http.Request) (cluster.NodeID, error) {
	worker, _, err := g.workerOrOwner(r)
	if err == nil && worker == "" {
		err = api.Errorf(api.CodeForbidden, "only a worker, by its own token, may ask for this")
	}
	return worker, err
}

func random() string {
	var b [16]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}
