package join

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
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
	// More looks for other addresses each time that none of the token's has answered; may be nil.
	More func(context.Context) []string
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
// in turn, 10 s each, onion addresses 90 s and five times over; one that closes the
// connection before it answers is asked again. If none answers the error is an
// *UnansweredError. After any error it may be called again with the same
// token: the host keeps its keys, and a sponsor repeats its answer.
func Join(ctx context.Context, t token.Token, dir string, o Options) error {
	if o.Wall == nil {
		o.Wall = time.Now
	}
	if o.Dial == nil {
		d := &net.Dialer{Timeout: door.ExchangeTime, Control: smallSegments}
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
	if _, err := cluster.ParseHostName(string(j.o.Node)); err != nil {
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
	if !j.token.Network.IsValid() {
		return fmt.Errorf("%w: it names no network, so it is of an earlier version or was changed: create another", token.ErrToken)
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
	if errors.Is(err, ErrRefused) {
		// What this host can tell of why; the sponsor tells nothing.
		return fmt.Errorf("%w as %s by invite %s, which ends at %s: it is %s by the clock here", err, j.o.Node, j.token.Invite,
			j.token.Deadline.UTC().Format(time.RFC3339), j.o.Wall().UTC().Format(time.RFC3339))
	}
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
	var f identityFile
	_, err := durable.PendingKeys.ReadJSON(j.dir, &f)
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
	return f, durable.PendingKeys.WriteJSON(j.dir, f)
}

// How often the addresses are tried.
const (
	// maxAsks is for a sponsor that is too slow to answer: it may be admitting a
	// whole rack.
	maxAsks = 3
	// cutAsks is for a sponsor that closes the connection before it answers: it
	// restarts, or its join port is flooded.
	cutAsks = 8
	// onionAsks is for onion addresses: circuits fail for many reasons. The
	// pause before each further time doubles.
	onionAsks     = 5
	onionPause    = 5 * time.Second
	maxOnionPause = time.Minute
	// onionExchange bounds one try at an onion address.
	onionExchange = 90 * time.Second
	// The pause before each further time at another address, where the last one was
	// not a wait already, doubles too.
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
		if err != nil && !errors.Is(err, ErrRefused) && ctx.Err() == nil {
			a, err = j.askMore(ctx, addrs, id, ann, err)
		}
		switch {
		case err == nil || errors.Is(err, ErrRefused) || errors.Is(ctx.Err(), context.Canceled):
			return a, err
		case ctx.Err() != nil || !j.again(n, tor, err) || wait.For(ctx, j.pause(n, tor, err)) != nil:
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
func (j *joiner) pause(n int, tor bool, err error) time.Duration {
	first, most := firstPause, maxPause
	switch {
	case tor:
		first, most = onionPause, maxOnionPause
	case j.o.Patience == 0 && !cut(err):
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
		return n < maxAsks && errors.Is(err, context.DeadlineExceeded) || n < cutAsks && cut(err)
	}
	return (j.o.Patience > 0 || n < onionAsks) && !errors.Is(err, ErrPin) && !errors.Is(err, ErrAnswer)
}

// cut reports whether a connection was closed before there was an answer.
func cut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
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

// askMore tries addresses that were found. Whoever is there may be another host than the one
// who made the token: that it is not says nothing.
func (j *joiner) askMore(ctx context.Context, asked []string, id *Identity, ann member.Signed, err error) (*answer, error) {
	if j.o.More == nil {
		return nil, err
	}
	for _, addr := range j.o.More(ctx) {
		if slices.Contains(asked, addr) {
			continue
		}
		a, other := j.askOne(ctx, addr, id, ann)
		if other == nil || errors.Is(other, ErrRefused) {
			return a, other
		}
		err = errors.Join(err, fmt.Errorf("ask %s, which was found: %s", addr, other.Error())) //nolint:errorlint // of whom, nobody knows
	}
	return nil, err
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

// askOne asks one address whether it would admit this host, checks what it says,
// confirms, and only then is admitted: until it confirms, no use of the invite is
// spent. A sponsor of a version that knows no such step admits at once.
func (j *joiner) askOne(ctx context.Context, addr string, id *Identity, ann member.Signed) (*answer, error) {
	limit := door.ExchangeTime
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
	inner, err := j.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(inner, door.ClientTLS(j.token.IDPub))
	defer conn.Close() //nolint:errcheck // all that counts was read
	defer context.AfterFunc(ctx, func() { _ = inner.Close() })()
	a, err := j.exchange(conn, id, raw, transcript)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return a, err
}

// exchange carries out both steps on a connection.
func (j *joiner) exchange(conn *tls.Conn, id *Identity, raw, transcript []byte) (*answer, error) {
	if err := conn.Handshake(); err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	in := bufio.NewReader(io.LimitReader(conn, 2*(maxAnswer+door.MaxRequest)))
	body, tag, err := j.post(conn, in, token.Ask, raw)
	if err != nil {
		return nil, err
	}
	if secret := j.token.Secret.Bytes(); hmac.Equal(tag, offerMAC(secret, transcript, body)) {
		o, err := parseOffer(body)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrAnswer, err)
		}
		if o.Network != j.token.Network {
			return nil, fmt.Errorf("%w: a cluster on %s, and the token says %s", ErrAnswer, o.Network, j.token.Network)
		}
		if _, err := j.sponsor(id, o.Node, o.Records); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrAnswer, err)
		}
		if body, tag, err = j.post(conn, in, token.Confirm, raw); err != nil {
			return nil, err
		}
	}
	if !hmac.Equal(tag, answerMAC(j.token.Secret.Bytes(), transcript, body)) {
		return nil, fmt.Errorf("not authentic: %w", ErrAnswer)
	}
	a, err := parseAnswer(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return a, nil
}

// post sends the request for one step and reads what comes back.
func (j *joiner) post(conn *tls.Conn, in *bufio.Reader, step token.Step, raw []byte) (body, tag []byte, err error) {
	proof, err := j.token.Proof(step, conn.ConnectionState())
	if err != nil {
		return nil, nil, fmt.Errorf("prove the token: %w", err)
	}
	// The proof first and the rest after it: the sponsor keeps a place for who has
	// a token.
	head := "POST " + door.PathPrefix + j.token.Invite + " HTTP/1.1\r\nHost: skein\r\n" + proofHeader + ": " + proof + "\r\nContent-Length: " +
		strconv.Itoa(len(raw)) + "\r\n\r\n"
	if _, err := conn.Write(append([]byte(head), raw...)); err != nil {
		return nil, nil, err
	}
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("closed before there was an answer: %w", err)
	}
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	_ = resp.Body.Close() // read-only
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("read answer: %w", err)
	case len(body) > maxAnswer:
		return nil, nil, fmt.Errorf("answer above %d bytes: %w", maxAnswer, ErrAnswer)
	case resp.StatusCode == http.StatusNotFound:
		return nil, nil, ErrRefused
	case resp.StatusCode != http.StatusOK:
		return nil, nil, fmt.Errorf("status %d: %w", resp.StatusCode, ErrAnswer)
	}
	if tag, err = macEncoding.DecodeString(resp.Header.Get(macHeader)); err != nil {
		return nil, nil, fmt.Errorf("not authentic: %w", ErrAnswer)
	}
	return body, tag, nil
}

// sponsor checks records against the token's root key and returns a table of them:
// node is a sponsor that holds the key of the token.
func (j *joiner) sponsor(id *Identity, node cluster.NodeID, records member.Records) (*member.Table, error) {
	t := member.NewTable(id.Verifier())
	if _, err := t.AddAll(records, j.o.Wall()); err != nil {
		return nil, err
	}
	c, ok := t.Cert(node)
	if !ok || !c.Sponsor() || !c.IDPub.Equal(j.token.IDPub) {
		return nil, fmt.Errorf("no sponsor certificate for %q", node)
	}
	if _, ok := t.Member(node); !ok {
		return nil, fmt.Errorf("no announcement of %s", node)
	}
	return t, nil
}

// verify checks an authentic answer against the root key, and returns the
// records to begin with.
func (j *joiner) verify(id *Identity, a *answer, ann member.Signed) (member.Records, error) {
	t, err := j.sponsor(id, a.Node, a.Records)
	if err != nil {
		return member.Records{}, err
	}
	cert, err := member.ParseCert(a.Cert)
	if err != nil {
		return member.Records{}, err
	}
	if cert.Node != id.Node || !cert.IDPub.Equal(id.IDPub) || !a.Network.Contains(cert.IP4) || a.Network != j.token.Network {
		return member.Records{}, fmt.Errorf("certificate of %s at %s", cert.Node, cert.IP4)
	}
	if _, err := t.AddCert(a.Cert, j.o.Wall()); err != nil {
		return member.Records{}, err
	}
	if _, err := t.AddAnn(ann, j.o.Wall()); err != nil {
		return member.Records{}, err
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
	if err := durable.Identity.WriteJSON(j.dir, f); err != nil {
		return err
	}
	if err := os.Remove(durable.PendingKeys.Path(j.dir)); err != nil {
		return fmt.Errorf("remove the finished try: %w", err)
	}
	if err := durable.SyncDir(j.dir); err != nil {
		return err
	}
	j.log.Info().Str("node", string(f.Node)).Str("peer", string(a.Node)).Msg("joined the cluster")
	return nil
}
