package door

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/bucket"
)

// maxNonces bounds how many are remembered; each is of a request that was signed.
const maxNonces = 200_000

// Rule is what a route wants of who asks.
type Rule struct {
	Method, Path string
	// Needs is the right that it takes. Routes under /v1/jobs/{id} are about a job,
	// which has an owner: see Own.
	Needs access.Right
	// Open routes tell nothing of the cluster: everybody may ask.
	Open bool
	// Change routes change something.
	Change bool
	// Long bodies are taken as they come: a proof is over the hash that is told before.
	Long bool
	Pace Pace
}

// Options of a Door; all must be set, but for Group, Names and Limited.
type Options struct {
	Cluster string   // id, which proofs name
	Group   string   // whose members are operators on the socket
	Node    string   // name of this host
	Names   []string // further ones that proofs may name it by, in lower case
	Bearer  string   // what tokens are good for: off, read or all
	// Directory finds users; it is another one when a user has changed.
	Directory func() *access.Directory
	// Tokens are the access tokens of users; nil: there are none.
	Tokens Tokens
	// Owner tells whose a job is; empty: there is no such job.
	Owner   func(id job.ID) string
	MaxBody int64 // bytes of a body that is not Long
	// Limited hears of each request that one of Paces refuses.
	Limited func(pace string)
	Log     zerolog.Logger
}

// Tokens knows what access tokens lend.
type Tokens interface {
	// Lent is what a token, the whole text, lends at the time now; false: nothing.
	Lent(text string, now time.Time) (access.Lent, bool)
	// Lends is that of the token of which this is the Key.
	Lends(key string, now time.Time) (access.Lent, bool)
}

// Door finds out who asks and says what they may do. Its methods may be called from
// any goroutine.
type Door struct {
	o     Options
	began time.Time

	mu     sync.Mutex
	nonces *access.Nonces
	limits *bucket.Table // by Pace
}

// New returns a Door. It begins to remember proofs now.
func New(o Options) *Door {
	began := time.Now()
	return &Door{o: o, began: began, nonces: access.NewNonces(maxNonces, began), limits: newLimits()}
}

// unauthorized is all that anybody learns of a proof that is refused.
func (d *Door) unauthorized() *api.Problem {
	p := api.Errorf(api.CodeUnauthorized, "no good proof of a user: this needs a signed request, or a token")
	p.ServerTime = new(time.Now().UTC())
	return p.WithHint("`skein --key FILE`, or `Authorization: Bearer $(skein auth token)`; the key must be that of a user who is not disabled, and the clock right")
}

// Admit says who asks, and refuses who may not.
func (d *Door) Admit(r *http.Request, rt Rule) (Peer, *http.Request, *api.Problem) {
	p, r, prob := d.who(r, rt)
	if prob == nil {
		if prob = d.paced(p, rt); prob != nil {
			d.forget(p, r) // else who is told to wait could fill the room of all others
		}
	}
	if prob != nil {
		return p, r, prob
	}
	if rt.Open {
		return p, r.WithContext(With(r.Context(), p)), nil
	}
	switch p.reach(rt.Needs) {
	case access.All:
	case access.Own:
		p.Only = p.Actor()
	default:
		return p, r, d.forbidden(p, rt)
	}
	return p, r.WithContext(With(r.Context(), p)), nil
}

// Own refuses p a job of somebody else's as one that there is not.
func (d *Door) Own(p Peer, id job.ID) *api.Problem {
	if p.Only == "" || d.o.Owner(id) == p.Only {
		return nil
	}
	return api.Errorf(api.CodeNotFound, "no job %s", id).WithHint("see `skein job ls`")
}

func (d *Door) forbidden(p Peer, rt Rule) *api.Problem {
	switch {
	case p.Users && p.User == "":
		return d.unauthorized()
	case p.TCP && !p.Users:
		return api.Errorf(api.CodeForbidden, "%s is served on the unix socket only", rt.Path).WithHint("here everybody may read and nobody change: use the commands, or `skein ui`, on the host")
	}
	prob := api.Errorf(api.CodeForbidden, "%s may not do this as %s", strings.Replace(p.Actor(), ":", " ", 1), p.Role)
	if p.User == "" && rt.Change {
		prob = api.Errorf(api.CodeForbidden, "uid %d may read, not change", p.UID)
	}
	switch {
	case p.User != "":
		return prob.WithHint("ask an operator to do it, or for the role: `skein user add NAME --role ROLE`")
	case d.o.Group != "":
		return prob.WithHint("become root, or a member of group %s", d.o.Group)
	}
	return prob.WithHint("become root")
}

// who finds out who asks.
func (d *Door) who(r *http.Request, rt Rule) (Peer, *http.Request, *api.Problem) {
	p := Of(r.Context())
	proof, signed, err := access.ProofOf(r.Header)
	text, bearer := bearerToken(r.Header.Get("Authorization"))
	several := len(r.Header.Values("Authorization")) > 1
	whom := countedFor(p, proof)
	switch wait := d.mustWait(whom); {
	case !signed && !bearer && !several:
		p.Role = d.roleOf(p)
		return p, r, nil
	case wait > 0:
		return p, r, d.limited(Refused, wait, "too many proofs of this address were refused")
	case signed && bearer, several: // a proxy before this host may have judged the other one
		err = errors.New("two proofs")
	case err != nil:
	case signed:
		p, err = d.signed(p, r, rt, proof)
	case access.IsLent(text):
		p, err = d.lent(p, rt, text)
	default:
		p, err = d.token(p, rt, text)
	}
	if early, ok := errors.AsType[*access.EarlyError](err); ok || errors.Is(err, access.ErrFull) {
		prob := api.Errorf(api.CodeOverloaded, "%v", err)
		if ok {
			prob.RetryAfterSeconds = new(early.After.Seconds())
		}
		return p, r, prob
	}
	if errors.Is(err, access.ErrDown) {
		return p, r, api.Errorf(api.CodeNotReady, "%v", err)
	}
	if prob, ok := errors.AsType[*api.Problem](err); ok {
		return p, r, prob
	}
	if err != nil {
		d.failed(whom)
		d.o.Log.Info().Err(err).Str("addr", p.Addr).Str("request", rt.Method+" "+rt.Path).Msg("proof of a user refused")
		return p, r, d.unauthorized()
	}
	return p, r, nil
}

// bearerToken is the token of a header; a scheme has no case (RFC 9110).
func bearerToken(header string) (text string, ok bool) {
	scheme, text, ok := strings.Cut(header, " ")
	return strings.TrimLeft(text, " "), ok && strings.EqualFold(scheme, "Bearer")
}

// roleOf is the role of who shows no proof.
func (d *Door) roleOf(p Peer) access.Role {
	switch {
	case p.Users:
		return access.Nobody
	case p.TCP:
		return access.Viewer
	case p.Admin:
		return access.Operator
	}
	if u := d.o.Directory().UID(uint64(p.UID)); u.Name != "" && !u.Disabled {
		return max(u.Role, access.Viewer)
	}
	return access.Viewer
}

// signed checks a signed request, and keeps its nonce.
func (d *Door) signed(p Peer, r *http.Request, rt Rule, proof access.Proof) (Peer, error) {
	req := access.Request{
		Cluster: d.o.Cluster, Method: r.Method, Host: strings.ToLower(r.Host), Path: r.URL.EscapedPath(), Query: r.URL.RawQuery,
	}
	if _, key := d.o.Directory().Key(proof.Key); key == nil {
		return p, errors.New("a key of nobody's") // whose body is not worth reading
	}
	switch {
	case rt.Long:
		sum, err := hex.DecodeString(r.Header.Get(access.HeaderBody))
		if err != nil || len(sum) != len(req.Body) {
			return p, errors.New("no hash of the body")
		}
		req.Body = [sha256.Size]byte(sum)
	case r.ContentLength > d.o.MaxBody:
		return p, bodyError(&http.MaxBytesError{}, d.o.MaxBody)
	default:
		text, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, d.o.MaxBody))
		if err != nil {
			return p, bodyError(err, d.o.MaxBody)
		}
		r.Body = io.NopCloser(bytes.NewReader(text))
		req.Body = sha256.Sum256(text)
	}
	now := time.Now()
	u, err := d.o.Directory().Proven(proof, req, now)
	if err != nil {
		return p, err
	}
	// Each host remembers by itself which proofs were used: one that does not name this
	// host may have been shown to another, who shows it here.
	if p.TCP && !p.Carried && (p.Gate.Host == "" || req.Host != p.Gate.Host) && !d.named(r) {
		return p, d.notHere(r)
	}
	d.mu.Lock()
	err = d.nonces.Use(proof, now)
	d.mu.Unlock()
	if err == nil && p.Gate.Used != nil {
		if err = p.Gate.Used.Use(proof, now); err != nil && !errors.Is(err, access.ErrUsed) {
			d.forget(Peer{}, r) // it may come again
		}
	}
	p.Role, p.User, p.Key, p.Had = u.Role, u.Principal(), proof.Key, u.Role
	return p, err
}

// Here refuses a request that another host brings.
func (d *Door) Here(r *http.Request) *api.Problem {
	if Of(r.Context()).Carried {
		return d.notHere(r)
	}
	return nil
}

func (d *Door) notHere(r *http.Request) *api.Problem {
	return api.Errorf(api.CodeForbidden, "a request must be signed for the host that is asked: %.64q is neither a name of this one, %s, nor the address and port that were asked", r.Host, d.o.Node).
		WithHint("ask %s by its name or address, or on the host itself; other names of it, as behind a balancer, go into api.names there", d.o.Node)
}

// named reports whether a request names this host: by its name, which may have a domain
// behind it, by a further name, or by the address and port that were connected to, which
// several hosts of one machine have in common but for the port.
func (d *Door) named(r *http.Request) bool {
	host := strings.Trim(hostOf(strings.ToLower(r.Host)), "[]")
	if name, _, _ := strings.Cut(host, "."); name == d.o.Node || slices.Contains(d.o.Names, host) {
		return true
	}
	at, ok := localAddr(r)
	if !ok || portOf(r) != strconv.Itoa(int(at.Port())) {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap() == at.Addr() || host == "localhost" && at.Addr().IsLoopback()
}

// portOf is the port that a request names, or that its scheme has.
func portOf(r *http.Request) string {
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		return port
	}
	if r.TLS != nil {
		return "443"
	}
	return "80"
}

// localAddr is the address on this host that a request came to.
func localAddr(r *http.Request) (netip.AddrPort, bool) {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return netip.AddrPort{}, false
	}
	at, err := netip.ParseAddrPort(addr.String())
	return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port()), err == nil
}

// bodyError is what whoever sent a body is told.
func bodyError(err error, limit int64) error {
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return api.Errorf(api.CodeTooLarge, "body is longer than %d bytes", limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return api.Errorf(api.CodeInvalidRequest, "the body did not come in time")
	}
	return api.Errorf(api.CodeInvalidRequest, "body: %s", err)
}

// token checks a token that a user's key signed.
func (d *Door) token(p Peer, rt Rule, text string) (Peer, error) {
	if d.o.Bearer == "off" || d.o.Bearer != "all" && rt.Change {
		return p, api.Errorf(api.CodeForbidden, "no token is good for this here: sign the request").WithHint("api.bearer is %s on this host", d.o.Bearer)
	}
	dir := d.o.Directory()
	t, err := access.ParseToken(text, d.o.Cluster, time.Now(), dir.Key)
	if err != nil {
		return p, err
	}
	u, _ := dir.User(t.User)
	p.Role, p.User, p.Key, p.Had, p.Ends = min(t.Role, u.Role), u.Principal(), t.Key, u.Role, t.Expires
	return p, nil
}

// lent checks an access token. An operator made it for what it is used for: api.bearer is of
// tokens that users make themselves.
func (d *Door) lent(p Peer, rt Rule, text string) (Peer, error) {
	if p.Gate.Host == "" && !p.Carried || d.o.Tokens == nil {
		return p, errors.New("an access token, which gateways alone take")
	}
	l, ok := d.o.Tokens.Lent(text, time.Now())
	u, known := d.o.Directory().User(l.User)
	if !ok || !known || u.Disabled {
		return p, errors.New("an access token that is none, or is over, or whose user may do nothing")
	}
	if lacks := l.Lacks(rt.Change); lacks != "" {
		return p, api.Errorf(api.CodeForbidden, "this access token is not for %s", lacks).WithHint("`skein gateway token create --owner %s --role %s` makes one", u.Principal(), lacks)
	}
	p.Role, p.User, p.Key, p.Had, p.Ends = l.Role(u.Role), u.Principal(), l.Key(), u.Role, l.Expires
	return p, nil
}

// countedFor is whom a refused proof counts for: an address, a uid on the socket, or
// the key that another host says to bring something of: no user makes that host mute
// for all others.
func countedFor(p Peer, proof access.Proof) string {
	switch {
	case p.Carried:
		return p.Addr + " " + proof.Key
	case !p.TCP:
		return p.Actor()
	}
	return Network(p.Addr)
}

// Network is an address, or of IPv6 the network of 64 bits, any address of which one
// machine may have.
func Network(addr string) string {
	ip, err := netip.ParseAddr(addr)
	if err != nil || ip.Unmap().Is4() {
		return addr
	}
	network, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return addr
	}
	return network.String()
}

// paced counts the request of a user, or of an address from where nobody proves to
// ask. On the socket, and where viewers need no proof, nothing is counted.
func (d *Door) paced(p Peer, rt Rule) *api.Problem {
	pace, who := rt.Pace, p.User
	switch {
	case !p.Users && (p.User == "" || p.Admin):
		return nil
	case who == "":
		pace, who = Unknown, Network(p.Addr)
	}
	d.mu.Lock()
	wait := d.limits.Take(int(pace), who, time.Since(d.began))
	d.mu.Unlock()
	if wait == 0 {
		return nil
	}
	return d.limited(pace, wait, "%s asks too often", who)
}

// forget gives the nonce of a request back that was admitted by its proof, but not done.
func (d *Door) forget(p Peer, r *http.Request) {
	if proof, signed, err := access.ProofOf(r.Header); signed && err == nil {
		if p.Gate.Used != nil {
			p.Gate.Used.Forget(proof)
		}
		d.mu.Lock()
		d.nonces.Forget(proof)
		d.mu.Unlock()
	}
}

// limited tells somebody to wait.
func (d *Door) limited(pace Pace, wait time.Duration, why string, args ...any) *api.Problem {
	if d.o.Limited != nil {
		d.o.Limited(paces[pace].name)
	}
	prob := api.Errorf(api.CodeOverloaded, why, args...)
	prob.RetryAfterSeconds = new(wait.Seconds())
	return prob
}

// mustWait is how long no proof of somebody is looked at.
func (d *Door) mustWait(whom string) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.limits.Wait(int(Refused), whom, time.Since(d.began))
}

// failed counts a proof that was refused.
func (d *Door) failed(whom string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.limits.Take(int(Refused), whom, time.Since(d.began))
}

// watchUser is how soon the stream of somebody who may no longer see it ends.
const watchUser = 500 * time.Millisecond

// While returns a context that ends, with a problem as its cause, once p is no longer
// who was admitted: the user is disabled or has another role, the key that proved the
// request is gone, or the token ends.
func (d *Door) While(ctx context.Context, p Peer) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	stop := func() { end(nil) }
	if p.User == "" && (p.TCP || p.Admin) {
		return ctx, stop // no user can change what it may
	}
	go func() {
		tick := time.NewTicker(watchUser)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if prob := d.still(p, time.Now()); prob != nil {
				end(prob)
				return
			}
		}
	}()
	return ctx, stop
}

// still tells why p, which was admitted, would be somebody else now.
func (d *Door) still(p Peer, now time.Time) *api.Problem {
	const changed = "who asks has another role now: ask again"
	if p.User == "" {
		if d.roleOf(p) != p.Role {
			return api.Errorf(api.CodeNotReady, changed)
		}
		return nil
	}
	u, key := d.o.Directory().Key(p.Key)
	lent := access.IsLent(p.Key)
	if lent {
		l, ok := d.o.Tokens.Lends(p.Key, now)
		if !ok || l.Lacks(false) != "" { // what lasts changes nothing
			return d.unauthorized()
		}
		u, _ = d.o.Directory().User(l.User)
	}
	switch {
	case key == nil && !lent || u.Principal() != p.User || u.Disabled || !p.Ends.IsZero() && now.After(p.Ends):
		return d.unauthorized()
	case u.Role != p.Had:
		return api.Errorf(api.CodeNotReady, changed)
	}
	return nil
}
