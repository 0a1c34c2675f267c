package join

import (
	"bytes"
	"context"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join/door"
	"github.com/skein-project/skein/coord/join/token"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/internal/durable"
	"github.com/skein-project/skein/internal/wait"
)

// Options says how a host joins.
type Options struct {
	// Node is the node id that the host asks for.
	Node  cluster.NodeID
	About About
	// Dial reaches a sponsor's address; a plain TCP dialer if nil. DialOnion
	// does it for onion addresses, which are left out if it is nil.
	Dial      func(ctx context.Context, addr string) (net.Conn, error)
	DialOnion func(ctx context.Context, addr string) (net.Conn, error)
	// Renew is called before the addresses are tried once more, if one of them
	// is an onion address: other circuits may do better. Optional.
	Renew func(context.Context)
	// Patience is for how long a sponsor that does not answer is asked; 0: three
	// times, 10 s each.
	Patience time.Duration
	// Wall is the wall clock, time.Now if nil.
	Wall   func() time.Time
	Logger zerolog.Logger
	// Rand returns a number in [0,1), for pauses; optional.
	Rand func() float64
}

// Join makes the host of state directory dir a member of the token's cluster.
// It does nothing in a directory that is a member of it already, and refuses
// one of another cluster (ErrOtherCluster). The sponsor's addresses are tried
// in turn, 10 s each, onion addresses 90 s and five times over. If none answers the
// error is an *UnansweredError. After any error it may be called again with the same
// token: the host keeps its keys, and a sponsor repeats its answer.
func Join(ctx context.Context, t token.Token, dir string, o Options) error {
	if o.Wall == nil {
		o.Wall = time.Now
	}
	if o.Dial == nil {
		d := &net.Dialer{Timeout: exchangeTime, Control: smallSegments}
		o.Dial = func(ctx context.Context, addr string) (net.Conn, error) { return d.DialContext(ctx, "tcp", addr) }
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	j := &joiner{o: o, token: t, dir: dir, log: o.Logger.With().Str("component", "join").Logger()}
	if err := j.run(ctx); err != nil {
		return fmt.Errorf("join cluster %s: %w", t.Cluster, err)
	}
	return nil
}

type joiner struct {
	o     Options
	token token.Token
	dir   string
	log   zerolog.Logger
}

func (j *joiner) run(ctx context.Context) error {
	if _, err := cluster.ParseNodeID(string(j.o.Node)); err != nil {
		return err
	}
	switch id, err := loadIdentity(j.dir); {
	case err == nil && id.Cluster == j.token.Cluster:
		j.log.Debug().Msg("already a member")
		return nil
	case err == nil:
		return fmt.Errorf("%s is of cluster %s: %w", j.dir, id.Cluster, ErrOtherCluster)
	case !errors.Is(err, ErrNotInitialised):
		return err
	}
	if !j.o.Wall().Before(j.token.Deadline) {
		return token.ErrExpired
	}
	f, err := j.keys()
	if err != nil {
		return err
	}
	id, err := f.identity()
	if err != nil {
		return err
	}
	ann, err := Announce(j.dir, id, j.o.About, j.o.Wall())
	if err != nil {
		return err
	}
	a, err := j.ask(ctx, id, ann)
	if err != nil {
		return err
	}
	rs, err := j.verify(id, a, ann)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return j.persist(f, a, rs)
}

// keys returns this host's keys for the cluster: those of an earlier try, or
// fresh ones, durable before they are shown to anyone.
func (j *joiner) keys() (identityFile, error) {
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return identityFile{}, fmt.Errorf("make state directory: %w", err)
	}
	name := filepath.Join(j.dir, pendingFile)
	var f identityFile
	err := readJSON(name, &f)
	if err == nil && f.Cluster == j.token.Cluster && f.Node == j.o.Node && bytes.Equal(f.RootPub, j.token.RootPub) {
		return f, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return identityFile{}, err
	}
	if err := removeCounters(j.dir); err != nil {
		return identityFile{}, fmt.Errorf("remove an earlier try: %w", err)
	}
	if f, err = newKeys(j.o.Node); err != nil {
		return identityFile{}, err
	}
	f.Cluster, f.RootPub = j.token.Cluster, j.token.RootPub
	return f, writeJSON(name, f)
}

// How often the addresses are tried.
const (
	// maxAsks is for a sponsor that is too slow to answer: it may be admitting a
	// whole rack.
	maxAsks = 3
	// onionAsks is for onion addresses: circuits fail for many reasons. The
	// pause before each further time doubles.
	onionAsks     = 5
	onionPause    = 5 * time.Second
	maxOnionPause = time.Minute
	// onionExchange bounds one try at an onion address.
	onionExchange = 90 * time.Second
	// The pause before each further time at another address, where Options.Patience
	// wants one, doubles too.
	firstPause = 250 * time.Millisecond
	maxPause   = 5 * time.Second
)

// ask asks until there is an answer. To ask again is safe: the same invite and
// key get the same answer.
func (j *joiner) ask(ctx context.Context, id *Identity, ann member.Signed) (*answer, error) {
	addrs, tor := j.addrs()
	if len(addrs) == 0 {
		return nil, ErrNeedTor
	}
	if j.o.Patience > 0 {
		var done context.CancelFunc
		ctx, done = context.WithTimeout(ctx, j.o.Patience)
		defer done()
	}
	for n := 1; ; n++ {
		a, err := j.askAll(ctx, addrs, id, ann)
		switch {
		case err == nil || errors.Is(err, ErrRefused) || errors.Is(ctx.Err(), context.Canceled):
			return a, err
		case ctx.Err() != nil || !j.again(n, tor, err) || wait.For(ctx, j.pause(n, tor)) != nil:
			if errors.Is(err, ErrPin) || errors.Is(err, ErrAnswer) {
				return nil, err // there was an answer, and not the sponsor's
			}
			return nil, &UnansweredError{Addrs: addrs, Tries: n, Err: err}
		}
		j.log.Warn().Err(err).Int("attempt", n).Msg("no answer of a sponsor yet")
		if tor && j.o.Renew != nil {
			j.o.Renew(ctx)
		}
	}
}

// pause is how long to wait after the n-th time.
func (j *joiner) pause(n int, tor bool) time.Duration {
	first, most := firstPause, maxPause
	switch {
	case tor:
		first, most = onionPause, maxOnionPause
	case j.o.Patience == 0:
		return 0 // each time took as long as there is patience for
	}
	pause := min(first<<min(n-1, 10), most)
	return pause/2 + time.Duration(j.o.Rand()*float64(pause)/2)
}

// addrs are those that can be tried; tor says that one needs it.
func (j *joiner) addrs() (addrs []string, tor bool) {
	for _, a := range j.token.Addrs {
		if !token.IsOnion(a) {
			addrs = append(addrs, a)
		} else if j.o.DialOnion != nil {
			addrs, tor = append(addrs, a), true
		}
	}
	return addrs, tor
}

// again reports whether to ask once more after the n-th failure.
func (j *joiner) again(n int, tor bool, err error) bool {
	if !tor && j.o.Patience == 0 {
		return n < maxAsks && errors.Is(err, context.DeadlineExceeded)
	}
	return (j.o.Patience > 0 || n < onionAsks) && !errors.Is(err, ErrPin) && !errors.Is(err, ErrAnswer)
}

// askAll tries each address until one answers. A refusal ends the search: the
// addresses are one sponsor's.
func (j *joiner) askAll(ctx context.Context, addrs []string, id *Identity, ann member.Signed) (*answer, error) {
	var errs []error
	for _, addr := range addrs {
		a, err := j.askOne(ctx, addr, id, ann)
		if err == nil {
			return a, nil
		}
		errs = append(errs, fmt.Errorf("ask %s: %w", addr, err))
		if errors.Is(err, ErrRefused) || ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// dial connects to where the sponsor's TLS begins.
func (j *joiner) dial(ctx context.Context, addr string) (net.Conn, error) {
	target, viaDoor := strings.CutPrefix(addr, token.DoorPrefix)
	if !token.IsOnion(addr) {
		return j.o.Dial(ctx, target)
	}
	conn, err := j.o.DialOnion(ctx, target)
	if err != nil || !viaDoor {
		return conn, err
	}
	through, err := door.Through(ctx, conn, target, j.token.Invite)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return through, nil
}

func (j *joiner) askOne(ctx context.Context, addr string, id *Identity, ann member.Signed) (*answer, error) {
	limit := exchangeTime
	if token.IsOnion(addr) {
		limit = onionExchange
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req := request{
		WGPub: id.WGPub, RequestTime: j.o.Wall().Unix(), Node: id.Node, IDPub: id.IDPub,
		Nonce: token.RandomSecret(nonceLen).Bytes(), Ann: ann,
	}
	if e := first(j.o.About.Endpoints); e.IsValid() {
		req.Endpoint = e.String()
	}
	transcript := req.transcript(j.token.Cluster, j.token.IDPub, j.token.Invite)
	if err := req.prove(transcript, j.token.Secret, id.IDKey(), id.WGKey(), j.token.WGPub); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	status, header, body, err := j.post(ctx, addr, raw)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusNotFound:
		return nil, ErrRefused
	case status != http.StatusOK:
		return nil, fmt.Errorf("status %d: %w", status, ErrAnswer)
	}
	tag, err := macEncoding.DecodeString(header.Get(macHeader))
	if err != nil || !hmac.Equal(tag, answerMAC(j.token.Secret.Bytes(), transcript, body)) {
		return nil, fmt.Errorf("not authentic: %w", ErrAnswer)
	}
	a, err := parseAnswer(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return a, nil
}

// post sends one request over a connection of its own.
func (j *joiner) post(ctx context.Context, addr string, raw []byte) (status int, header http.Header, body []byte, err error) {
	tr := &http.Transport{
		DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return j.dial(ctx, addr) },
		TLSClientConfig:        clientTLS(j.token.IDPub),
		TLSHandshakeTimeout:    onionExchange, // ctx ends sooner
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: maxRequest,
	}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://skein"+door.PathPrefix+j.token.Invite, bytes.NewReader(raw))
	if err != nil {
		return 0, nil, nil, fmt.Errorf("build request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "skein")
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }() // read-only
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return 0, nil, nil, fmt.Errorf("read answer: %w", err)
	}
	if len(body) > maxAnswer {
		return 0, nil, nil, fmt.Errorf("answer above %d bytes: %w", maxAnswer, ErrAnswer)
	}
	return resp.StatusCode, resp.Header, body, nil
}

// verify checks an authentic answer against the root key, and returns the
// records to begin with.
func (j *joiner) verify(id *Identity, a *answer, ann member.Signed) (member.Records, error) {
	t := member.NewTable(id.Verifier())
	now := j.o.Wall()
	if _, err := t.AddAll(a.Records, now); err != nil {
		return member.Records{}, err
	}
	sponsor, ok := t.Cert(a.Node)
	if !ok || !sponsor.Sponsor() || !sponsor.IDPub.Equal(j.token.IDPub) {
		return member.Records{}, fmt.Errorf("no sponsor certificate for %q", a.Node)
	}
	cert, err := member.ParseCert(a.Cert)
	if err != nil {
		return member.Records{}, err
	}
	if cert.Node != id.Node || !cert.IDPub.Equal(id.IDPub) || !a.Network.Contains(cert.IP4) {
		return member.Records{}, fmt.Errorf("certificate of %s at %s", cert.Node, cert.IP4)
	}
	if _, err := t.AddCert(a.Cert, now); err != nil {
		return member.Records{}, err
	}
	if _, err := t.AddAnn(ann, now); err != nil {
		return member.Records{}, err
	}
	if _, ok := t.Member(a.Node); !ok {
		return member.Records{}, fmt.Errorf("no announcement of %s", a.Node)
	}
	return t.Records(), nil
}

// persist writes what was learned; identity.json last, since it makes the
// directory a member's.
func (j *joiner) persist(f identityFile, a *answer, rs member.Records) error {
	f.ClusterName, f.Network, f.Secret = a.ClusterName, a.Network, a.Secret
	if err := saveRecords(j.dir, rs); err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(j.dir, IdentityFile), f); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(j.dir, pendingFile)); err != nil {
		return fmt.Errorf("remove the finished try: %w", err)
	}
	if err := durable.SyncDir(j.dir); err != nil {
		return err
	}
	j.log.Info().Str("node", string(f.Node)).Str("peer", string(a.Node)).Msg("joined the cluster")
	return nil
}
