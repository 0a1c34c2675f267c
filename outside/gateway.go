package outside

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// Deadlines and bounds of requests.
const (
	askTime    = 20 * time.Second
	fetchTime  = 10 * time.Minute
	maxAnswer  = 64 << 20
	tokenSpare = 2 * time.Minute // a token is not used for longer than this before its end; while gateways know nothing of used requests, they give none for a minute
)

// Dial opens a connection.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// gateway is one of those that may be asked. Its methods may be called from any goroutine.
type gateway struct {
	url  string
	key  ed25519.PrivateKey
	id   cluster.NodeID
	tls  *tls.Config
	dial Dial
	http *http.Client

	mu      sync.Mutex
	cluster string        // its id; empty: not asked yet
	ahead   time.Duration // of the gateway's clock before this computer's
	token   string
	expires time.Time // by the gateway's clock
	ws      string    // where it wants workers to connect, as it said with the token; empty: to itself
}

func newGateway(address string, key ed25519.PrivateKey, conf *tls.Config, dial Dial) (*gateway, error) {
	if dial == nil {
		dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	}
	u, err := url.Parse(strings.TrimSuffix(address, "/"))
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("gateway %.200q: want https://host or https://host:port", address)
	}
	// Redirects are refused: what is signed is for this host.
	return &gateway{
		url: u.Scheme + "://" + strings.ToLower(u.Host), key: key, id: cluster.OutsideID(key.Public().(ed25519.PublicKey)), tls: conf, dial: dial,
		http: &http.Client{
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment, TLSClientConfig: conf, DialContext: dial,
				TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: askTime, MaxIdleConnsPerHost: 2, IdleConnTimeout: 10 * time.Second,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// realtime is where its WebSocket is.
func (g *gateway) realtime() string {
	if ws := g.elsewhere(); ws != "" {
		return ws
	}
	return "ws" + strings.TrimPrefix(g.url, "http") + "/v1/realtime"
}

// elsewhere is where the gateway wants workers to connect, unless that is to itself.
func (g *gateway) elsewhere() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ws
}

// now is the time by the gateway's clock.
func (g *gateway) now() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Now().Add(g.ahead)
}

// meet asks which cluster it is of, and what its clock says.
func (g *gateway) meet(ctx context.Context) (api.GatewayInfo, error) {
	var info api.GatewayInfo
	began := time.Now()
	if err := g.do(ctx, http.MethodGet, "/v1/info", nil, nil, &info); err != nil {
		return info, err
	}
	if info.MinClient > api.GatewayClient {
		return info, stop(fmt.Errorf("%s serves client %d and newer, this skein is client %d: update it", g.url, info.MinClient, api.GatewayClient))
	}
	if info.Cluster == "" {
		return info, fmt.Errorf("%s is no gateway of skein", g.url)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cluster, g.ahead = info.Cluster, info.ServerTime.Sub(began.Add(time.Since(began)/2))
	return info, nil
}

// signed asks for something by the worker's key. A signature is good once: where it was used
// already, as by a proxy that asked twice, it is asked anew.
func (g *gateway) signed(ctx context.Context, path string, body, out any) error {
	err := g.sign(ctx, path, body, out)
	if p, ok := errors.AsType[*api.Problem](err); ok && p.Code == api.CodeConflict {
		err = g.sign(ctx, path, body, out)
	}
	return err
}

func (g *gateway) sign(ctx context.Context, path string, body, out any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	g.mu.Lock()
	id := g.cluster
	g.mu.Unlock()
	if id == "" {
		info, err := g.meet(ctx)
		if err != nil {
			return err
		}
		id = info.Cluster
	}
	_, host, _ := strings.Cut(g.url, "://")
	var nonce [access.NonceBytes]byte
	rand.Read(nonce[:])
	proof, err := access.Sign(access.Request{
		Cluster: id, Method: http.MethodPost, Host: host, Path: path, Body: sha256.Sum256(text), Outside: true,
	}, g.key, nonce, g.now())
	if err != nil {
		return err
	}
	h := http.Header{}
	proof.Put(h)
	err = g.do(ctx, http.MethodPost, path, h, text, out)
	if p, ok := errors.AsType[*api.Problem](err); ok && p.Code == api.CodeUnauthorized {
		g.mu.Lock()
		g.cluster = "" // it, or its clock, may be another now
		g.mu.Unlock()
	}
	return err
}

// bearer is a token of the worker that is good for a while.
func (g *gateway) bearer(ctx context.Context) (string, error) {
	g.mu.Lock()
	token, left := g.token, time.Until(g.expires)-g.ahead
	g.mu.Unlock()
	if token != "" && left > tokenSpare {
		return token, nil
	}
	var out api.WorkerToken
	if err := g.signed(ctx, "/v1/workers/token", api.WorkerTokenRequest{Client: api.GatewayClient}, &out); err != nil {
		return "", err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.token, g.expires, g.ws = out.Token.Reveal(), out.ExpiresAt, out.WSURL
	return g.token, nil
}

// refused has a token not be used again that err says the gateway does not take.
func (g *gateway) refused(token string, err error) {
	if p, ok := errors.AsType[*api.Problem](err); ok && p.Code == api.CodeUnauthorized {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.token == token {
			g.token = ""
		}
	}
}

// call is a method of a worker, by HTTP.
func (g *gateway) call(ctx context.Context, method string, text []byte, out any) error {
	token, err := g.bearer(ctx)
	if err != nil {
		return err
	}
	err = g.do(ctx, http.MethodPost, "/v1/rpc/"+method, http.Header{"Authorization": {"Bearer " + token}}, text, out)
	g.refused(token, err)
	return err
}

// artefact opens one that a chunk needs.
func (g *gateway) artefact(ctx context.Context, h cluster.Hash) (io.ReadCloser, error) {
	token, err := g.bearer(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	resp, err := g.send(ctx, http.MethodGet, "/v1/artefacts/"+h.String(), http.Header{"Authorization": {"Bearer " + token}}, nil)
	if err != nil {
		cancel()
		g.refused(token, err)
		return nil, err
	}
	return reading{resp.Body, cancel}, nil
}

// reading is a body, whose request ends with it.
type reading struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (r reading) Close() error {
	defer r.cancel()
	return r.ReadCloser.Close()
}

func (g *gateway) do(ctx context.Context, method, path string, h http.Header, text []byte, out any) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	resp, err := g.send(ctx, method, path, h, text)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(out); err != nil {
		return fmt.Errorf("answer of %s: %w", g.url, err)
	}
	return nil
}

// send sends a request. An answer that is none of success is an error, a *api.Problem if
// it is one.
func (g *gateway) send(ctx context.Context, method, path string, h http.Header, text []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, g.url+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if h != nil {
		req.Header = h
	}
	if text != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := g.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusCreated {
		return resp, nil
	}
	defer resp.Body.Close()
	p := &api.Problem{}
	if answer, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10)); err != nil || json.Unmarshal(answer, p) != nil || p.Code == "" {
		return nil, fmt.Errorf("%s answers %s", g.url, resp.Status)
	}
	return nil, p
}
