package gatebench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/gateway"
	"github.com/skein-project/skein/gateway/crew"
	"github.com/skein-project/skein/gateway/rpc"
)

const (
	clusterID = "bench"
	tokenHost = "gateway.bench" // by which signed requests name either side
	tokenPath = "/v1/workers/token"
	askers    = 16 // connections, which stay
	// computers is how many outside workers ask. Each may have six tokens at once and six
	// a minute, and an address twenty requests a second: fast is how much faster the clock of
	// these limits goes here, so that they are looked at and refuse nobody.
	computers = 1000
	fast      = 100_000
)

// fold is a log of which only the state is there.
type fold struct {
	mu  sync.Mutex
	st  *state.State
	seq uint64
}

// View implements registry.Log.
func (f *fold) View(fn func(*state.State)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn(f.st)
}

func (f *fold) add(kind event.Kind, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq++
	f.st.Apply(event.Event{Source: event.SourceID{Node: "n1", Inc: 1}, Seq: f.seq, HLC: cluster.NewHLC(time.Now(), 0), Term: 1, Kind: kind, Body: text})
	return nil
}

// tokens answers requests for them.
type tokens struct {
	name, addr string
	close      func() error
}

func signingKey(i int) ed25519.PrivateKey {
	seed := sha256.Sum256(binary.BigEndian.AppendUint64([]byte("key"), uint64(i)))
	return ed25519.NewKeyFromSeed(seed[:])
}

func publicOf(k ed25519.PrivateKey) ed25519.PublicKey {
	return k.Public().(ed25519.PublicKey) //nolint:errcheck // of its type
}

// newGateway is a gateway that knows the keys.
func newGateway(ctx context.Context, dir string, keys []ed25519.PrivateKey) (*tokens, error) {
	log := &fold{st: state.New()}
	err := errors.Join(log.add(event.KindTermStart, event.TermStart{Term: 1}), log.add(event.KindUserSet, event.UserSet{Name: "ann", Role: "submitter"}))
	for _, k := range keys {
		public := publicOf(k)
		err = errors.Join(err, log.add(event.KindWorkerEnrolled, event.WorkerEnrolled{Worker: cluster.OutsideID(public), Key: public, Owner: owner, Actor: "uid:0@n1"}))
	}
	if err != nil {
		return nil, err
	}
	began := time.Now()
	opened := make(chan string, 1)
	now := func() time.Duration { return fast * time.Since(began) }
	c, err := crew.New(crew.Options{Now: now, Logger: zerolog.Nop()})
	if err != nil {
		return nil, err
	}
	g, err := gateway.New(gateway.Options{
		Crew: rpc.InMemory(c), Cluster: clusterID, Self: "n1", Dir: dir, Log: log, Now: now,
		Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry(),
		Announce: func(_ context.Context, b event.GatewayOpened) error { return log.add(event.KindGatewayOpened, b) },
		HTTP: gateway.HTTP{URL: "http://" + tokenHost, MaxClients: 1000, Open: func(ctx context.Context) (net.Listener, error) {
			l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
			if err == nil {
				opened <- l.Addr().String()
			}
			return l, err
		}},
	})
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(running) }()
	t := &tokens{name: "gateway", close: func() error {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}}
	select {
	case t.addr = <-opened:
	case err := <-ended:
		stop()
		return nil, fmt.Errorf("the gateway ended: %w", err)
	}
	ready := func() bool {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.addr+"/readyz", nil)
		if err != nil {
			return false
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}
	if err := suite.Poll(ctx, "the gateway lets workers in", time.Minute, ready); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

// newHandler is the least that gives tokens for signed requests: whose key it is it looks
// up, the signature it checks, and the token it signs. It remembers nothing.
func newHandler(ctx context.Context, keys []ed25519.PrivateKey) (*tokens, error) {
	known := map[string]ed25519.PublicKey{}
	for _, k := range keys {
		known[string(cluster.OutsideID(publicOf(k)))] = publicOf(k)
	}
	own := signingKey(-1)
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+tokenPath, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, "no body", http.StatusBadRequest)
			return
		}
		h, sum, id := r.Header, sha256.Sum256(body), r.Header.Get(access.HeaderKey)
		key, ok := known[id]
		signature, err := base64.RawURLEncoding.DecodeString(h.Get(access.HeaderSignature))
		text := "skein-gw-v1\n" + clusterID + "\n" + r.Method + "\n" + tokenHost + "\n" + r.URL.EscapedPath() + "\n" + r.URL.RawQuery + "\n" +
			h.Get(access.HeaderTime) + "\n" + h.Get(access.HeaderNonce) + "\n" + id + "\n" + hex.EncodeToString(sum[:]) + "\n"
		if !ok || err != nil || !ed25519.Verify(key, []byte(text), signature) {
			http.Error(w, "no proof", http.StatusUnauthorized)
			return
		}
		now := time.Now()
		token, err := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.RegisteredClaims{
			Subject: "w:" + id, Issuer: "n1", Audience: jwt.ClaimStrings{"skein-rt:" + clusterID}, ID: rand.Text(),
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(10 * time.Minute)),
		}).SignedString(own)
		if err != nil {
			http.Error(w, "no token", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"token":%q,"expires_at":%q}`, token, now.Add(10*time.Minute).Format(time.RFC3339))
	})
	addr, end, err := serve(ctx, mux)
	return &tokens{name: "net/http", addr: addr, close: end}, err
}

// signed makes n requests, each of which is good once at either side, as bytes.
func signed(keys []ed25519.PrivateKey, n int) ([][]byte, error) {
	out := make([][]byte, n)
	body, err := json.Marshal(api.WorkerTokenRequest{Client: api.GatewayClient})
	if err != nil {
		return nil, err
	}
	for i := range out {
		var nonce [access.NonceBytes]byte
		rand.Read(nonce[:])
		p, err := access.Sign(access.Request{
			Cluster: clusterID, Method: http.MethodPost, Host: tokenHost, Path: tokenPath, Body: sha256.Sum256(body), Outside: true,
		}, keys[i%len(keys)], nonce, time.Now())
		if err != nil {
			return nil, err
		}
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://"+tokenHost+tokenPath, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		p.Put(req.Header)
		var b bytes.Buffer
		if err := req.Write(&b); err != nil {
			return nil, err
		}
		out[i] = b.Bytes()
	}
	return out, nil
}

// rate is how many requests are answered a second, each with a token.
func (t *tokens) rate(ctx context.Context, requests [][]byte) (float64, error) {
	conns := make([]net.Conn, askers)
	for i := range conns {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp4", t.addr)
		if err != nil {
			return 0, err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Minute)) // of a socket
		conns[i] = conn
	}
	var next atomic.Int64
	failed := make([]error, askers)
	var asking sync.WaitGroup
	began := time.Now()
	for i, conn := range conns {
		asking.Go(func() {
			in := bufio.NewReader(conn)
			for failed[i] == nil {
				at := int(next.Add(1)) - 1
				if at >= len(requests) {
					return
				}
				failed[i] = ask(conn, in, requests[at])
			}
		})
	}
	asking.Wait()
	took := time.Since(began)
	if err := errors.Join(failed...); err != nil {
		return 0, fmt.Errorf("%s: %w", t.name, err)
	}
	return float64(len(requests)) / took.Seconds(), nil
}

func ask(conn net.Conn, in *bufio.Reader, request []byte) error {
	if _, err := conn.Write(request); err != nil {
		return err
	}
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || !bytes.HasPrefix(text, []byte(`{"token":"`))) {
		err = fmt.Errorf("%s: %.300s", resp.Status, text)
	}
	return err
}

// Token compares the tokens for signed requests that a gateway gives with those of a bare
// handler.
func Token(ctx context.Context, s *suite.Suite) (err error) {
	keys := make([]ed25519.PrivateKey, computers)
	for i := range keys {
		keys[i] = signingKey(i)
	}
	dir, err := os.MkdirTemp(s.Dir, "token-")
	if err != nil {
		return err
	}
	ours, err := newGateway(ctx, dir, keys)
	if err != nil {
		return err
	}
	theirs, err := newHandler(ctx, keys)
	if err != nil {
		return errors.Join(err, ours.close())
	}
	defer func() { err = errors.Join(err, ours.close(), theirs.close()) }()
	row := suite.Series{
		Name: "tokens of outside workers for signed requests", Unit: "requests/s", Target: suite.Want("ratio", ">=", 0.7), Digest: suite.Median,
		With: fmt.Sprintf("net/http: a handler that looks up the key, checks the same signature of the same text, and signs the same JWT, and no more; %d connections", askers),
	}
	for i := range s.Size.Rounds + 1 {
		s.Progress("tokens, round %d of %d", i, s.Size.Rounds)
		requests, err := signed(keys, s.Size.Tokens)
		if err != nil {
			return err
		}
		var a, b float64
		measure := func(t *tokens, into *float64) func() error {
			return func() (err error) {
				*into, err = t.rate(ctx, requests)
				return err
			}
		}
		if err := suite.InTurn(i, measure(ours, &a), measure(theirs, &b)); err != nil {
			return err
		}
		if i > 0 { // the first one warms up
			row.Ours, row.Peer = append(row.Ours, a), append(row.Peer, b)
		}
	}
	s.Add(row)
	return nil
}
