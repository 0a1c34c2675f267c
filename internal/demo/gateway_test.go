package demo

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// startGateways starts hosts that are all gateways, with more in their configuration, and
// says where.
func startGateways(t *testing.T, hosts int, more ...string) (*demo, context.Context, map[*host]string) {
	return startGatewaysIn(t, hosts, func(*demo) {}, more...)
}

// startGatewaysIn is startGateways in another shape of the cluster.
func startGatewaysIn(t *testing.T, hosts int, shape func(*demo), more ...string) (*demo, context.Context, map[*host]string) {
	t.Helper()
	return startGatewaysBehind(t, hosts, func(listen string) string { return listen }, shape, more...)
}

// startGatewaysBehind has clients reach each gateway where front says, which is told where it
// listens.
func startGatewaysBehind(t *testing.T, hosts int, front func(listen string) string, shape func(*demo), more ...string) (*demo, context.Context, map[*host]string) {
	t.Helper()
	at := map[int]string{}
	d, ctx := startWith(t, hosts, func(d *demo) {
		calm(d)
		shape(d)
		d.settings = func(i int) string {
			port, err := d.freePort()
			if err != nil {
				t.Error(err)
			}
			listen := fmt.Sprintf("127.0.0.1:%d", port)
			at[i] = "http://" + front(listen)
			return fmt.Sprintf("[gateway]\nlisten = %q\nurl = %q\n", listen, at[i]) + strings.Join(more, "")
		}
	})
	urls := map[*host]string{}
	for i, h := range d.hosts {
		urls[h] = at[i]
		eventually(ctx, t, time.Minute, h.name+" is a gateway", func() error {
			return outsideAsk(ctx, http.MethodGet, urls[h]+"/readyz", "", nil, nil)
		})
	}
	return d, ctx, urls
}

// homePC is somebody's computer, which is no member.
type homePC struct {
	key     ed25519.PrivateKey
	cluster string
}

func newHomePC(ctx context.Context, t *testing.T, gateway string) *homePC {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var info api.GatewayInfo
	if err := outsideAsk(ctx, http.MethodGet, gateway+"/v1/info", "", nil, &info); err != nil {
		t.Fatal(err)
	}
	return &homePC{key: key, cluster: info.Cluster}
}

func (p *homePC) public() ed25519.PublicKey { return p.key.Public().(ed25519.PublicKey) }

// signed asks a gateway for something with a signature.
func (p *homePC) signed(ctx context.Context, gateway, path string, body, out any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	at, err := url.Parse(gateway)
	if err != nil {
		return err
	}
	var nonce [access.NonceBytes]byte
	rand.Read(nonce[:])
	proof, err := access.Sign(access.Request{
		Cluster: p.cluster, Method: http.MethodPost, Host: at.Host, Path: path, Body: sha256.Sum256(text), Outside: true,
	}, p.key, nonce, time.Now())
	if err != nil {
		return err
	}
	h := http.Header{}
	proof.Put(h)
	return outsideSend(ctx, http.MethodPost, gateway+path, h, text, out)
}

func (p *homePC) register(ctx context.Context, gateway string) (out api.WorkerRegistered, err error) {
	err = p.signed(ctx, gateway, "/v1/workers/register", api.WorkerRegister{PublicKey: access.FormatPublicKey(p.public()), Name: "attic", Client: api.GatewayClient}, &out)
	return out, err
}

func (p *homePC) token(ctx context.Context, gateway string) (out api.WorkerToken, err error) {
	err = p.signed(ctx, gateway, "/v1/workers/token", api.WorkerTokenRequest{Client: api.GatewayClient}, &out)
	return out, err
}

func outsideAsk(ctx context.Context, method, url, token string, body, out any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	h := http.Header{}
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	return outsideSend(ctx, method, url, h, text, out)
}

func outsideSend(ctx context.Context, method, url string, h http.Header, text []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header = h
	req.Close = true // the next may have to go elsewhere
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if text, err = io.ReadAll(resp.Body); err != nil {
		return err
	}
	if resp.StatusCode >= 400 {
		p := &api.Problem{}
		if err := json.Unmarshal(text, p); err != nil {
			return fmt.Errorf("%s: %s", resp.Status, text)
		}
		return p
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}

// TestGateways: a computer that is no member registers at a gateway that is no holder; its
// owner claims it there with an access token, and every gateway knows it: a token that
// one gave is good at the others, also after that one was killed, until its owner shuts
// the computer out. Connections of who is shut out end at all of them at once.
func TestGateways(t *testing.T) {
	parallel(t)
	d, ctx, urls := startGateways(t, 3)
	shutOutSoon(ctx, t, d, urls)
	holder, err := d.holder(ctx)
	if err != nil {
		t.Fatal(err)
	}
	at := d.other(holder)
	if _, err := at.api.SetUser(ctx, "ann", api.UserRequest{Role: "submitter"}); err != nil {
		t.Fatal(err)
	}
	made, err := at.api.CreateAccess(ctx, api.AccessRequest{Owner: "user:ann", Roles: []string{"work"}, TTLSeconds: 3600})
	if err != nil {
		t.Fatal(err)
	}
	ann := made.Secret.Reveal()
	pc := newHomePC(ctx, t, urls[at])
	reg, err := pc.register(ctx, urls[at])
	if err != nil || reg.State != api.StateUnclaimed || reg.Worker != cluster.OutsideID(pc.public()) {
		t.Fatalf("%+v, %v", reg, err)
	}
	if _, err := pc.token(ctx, urls[at]); !api.IsCode(err, api.CodeForbidden) {
		t.Errorf("a token before it is claimed: %v", err)
	}
	var claimed api.WorkerClaimed
	if err := outsideAsk(ctx, http.MethodPost, urls[at]+"/v1/workers/claim", ann, api.WorkerClaim{ClaimCode: reg.ClaimCode}, &claimed); err != nil || claimed.Worker != reg.Worker || claimed.Fingerprint != reg.Fingerprint {
		t.Fatalf("%+v, %v", claimed, err)
	}
	tok, err := pc.token(ctx, urls[at])
	if err != nil {
		t.Fatal(err)
	}
	state := func(gateway, token string) (string, error) {
		var w api.GatewayWorker
		err := outsideAsk(ctx, http.MethodGet, gateway+"/v1/workers/"+string(reg.Worker), token, nil, &w)
		return w.State, err
	}
	for h, url := range urls {
		eventually(ctx, t, 30*time.Second, h.name+" knows it", func() error {
			s, err := state(url, tok.Token.Reveal())
			if err == nil && s != api.StateEnrolled {
				err = fmt.Errorf("it is %q", s)
			}
			return err
		})
		var info api.GatewayInfo
		if err := outsideAsk(ctx, http.MethodGet, url+"/v1/info", "", nil, &info); err != nil || len(info.URLs) != 3 || info.URLs[0] != url {
			t.Errorf("%s: %+v, %v", h.name, info, err)
		}
		var keys api.JWKS
		if err := outsideAsk(ctx, http.MethodGet, url+"/.well-known/jwks.json", "", nil, &keys); err != nil || len(keys.Keys) != 3 {
			t.Errorf("%s: %d keys, %v", h.name, len(keys.Keys), err)
		}
	}
	if got := eventsOf(ctx, t, holder, event.KindWorkerEnrolled); len(got) != 3 || !bytes.Contains(got[2].Body, []byte(`"actor":"token:`+strings.Split(ann, "_")[1]+"@"+at.name)) {
		t.Errorf("events of the claim: %+v", got)
	}
	for _, h := range d.hosts {
		for _, e := range eventsOf(ctx, t, h, event.KindAccessSet) {
			if bytes.Contains(e.Body, []byte(ann)) {
				t.Error("the log has the secret of a token")
			}
		}
	}
	kill(t, at)
	var left *host
	for _, h := range d.hosts {
		if h != at && h != holder {
			left = h
		}
	}
	if s, err := state(urls[left], tok.Token.Reveal()); err != nil || s != api.StateEnrolled {
		t.Errorf("a token of the gateway that was killed: %q, %v", s, err)
	}
	if tok, err = pc.token(ctx, urls[left]); err != nil {
		t.Fatal(err)
	}
	if err := outsideAsk(ctx, http.MethodDelete, urls[holder]+"/v1/workers/"+string(reg.Worker), ann, nil, nil); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, 30*time.Second, left.name+" shuts it out", func() error {
		if _, err := pc.token(ctx, urls[left]); !api.IsCode(err, api.CodeForbidden) {
			return fmt.Errorf("it gets a token: %w", err)
		}
		return nil
	})
	start1(t, at)
	eventually(ctx, t, time.Minute, at.name+" is a gateway again", func() error {
		return outsideAsk(ctx, http.MethodGet, urls[at]+"/readyz", "", nil, nil)
	})
	eventually(ctx, t, 30*time.Second, at.name+" has heard that it was shut out", func() error {
		if _, err := pc.register(ctx, urls[at]); !api.IsCode(err, api.CodeForbidden) {
			return fmt.Errorf("it registers: %w", err)
		}
		return nil
	})
	verifyAllHosts(ctx, t, d)
}
